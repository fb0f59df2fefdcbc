// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/recording.h"

#include <unistd.h>

#include <bit>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "collector/recorder/own_thread.h"
#include "collector/stacks/nap.h"
#include "collector/trace/job.h"
#include "collector/trace/trace_builder.h"
#include "memreel/version.h"

namespace memreel::agent {
namespace {

struct NewFile {
  std::string name;
  std::unique_ptr<LiveFile> file;
};

/// Creates a file with the pattern's name or, if that exists, with a number added: a small one, or else the process ID,
/// which is seldom taken. Thousands of processes may look for a name at once. Not next to a device or a pipe.
Result<NewFile> create(const std::string& pattern, unsigned mode, const ProcessNames& names) {
  constexpr unsigned small = 100, most = 1'000'000;
  for (unsigned attempt = 0;; ++attempt) {
    std::error_code ignored;
    const auto number = attempt <= small ? attempt : static_cast<unsigned>(names.process) + attempt - small - 1;
    const std::string name = std::filesystem::absolute(trace_name(pattern, names, number), ignored).string();
    auto created = live_file_sink(name, mode);
    if (created) return NewFile{name, *std::move(created)};
    const bool exists = std::filesystem::exists(std::filesystem::symlink_status(name, ignored));
    if (!exists || std::filesystem::is_other(name, ignored) || attempt == most) return created.error();
  }
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::begin(const Options& options, Recorder& recorder, const Setup& setup,
                                                    std::function<void(const Outcome&)> failed) {
  const ProcessNames names = process_names();
  auto file = create(options.output, options.mode, names);
  if (!file) return file.error();
  std::unique_ptr<Recording> recording(
      new Recording(options, recorder, setup, file->name, names.rank, std::move(file->file), std::move(failed)));
  if (!recording->start_thread()) {
    std::error_code ignored;
    std::filesystem::remove(file->name, ignored);
    return Error{.what = "can't start a thread",
                 .where = recording->trace(),
                 .remedy = "raise the limits on threads and memory (ulimit -u, -v, -d)"};
  }
  recording->await_opened();
  return recording;
}

/// A program killed right away must still leave a file that opens. The wait is limited, because the program may hold
/// the loader's lock, which the new thread may need.
void Recording::await_opened() const {
  stacks::nap_until([&] { return opened_.load(std::memory_order_acquire); }, std::chrono::milliseconds(50));
}

Recording::Recording(Options options, Recorder& recorder, Setup setup, std::string trace, std::string rank,
                     std::unique_ptr<LiveFile> file, std::function<void(const Outcome&)> failed)
    : options_(std::move(options)),
      recorder_(&recorder),
      setup_(std::move(setup)),
      trace_(std::move(trace)),
      rank_(std::move(rank)),
      file_(std::move(file)),
      failed_(std::move(failed)),
      start_(std::chrono::system_clock::now().time_since_epoch()),
      environment_(job_environment(::environ, options_.mask)),
      lost_before_(setup_.recorder_is_new ? 0 : recorder.lost()),
      cost_before_(setup_.recorder_is_new ? 0 : recorder.cost_ns()),
      refused_before_(setup_.recorder_is_new ? 0 : recorder.stacks().refused()) {
  if (options_.flight.size != 0_B)
    dumps_ = std::make_unique<FlightDumps>(options_, trace_, helper_of(setup_.library), setup_.say, setup_.ask_holders);
}

bool Recording::start_thread() {
  return start_own_thread(
      thread_, "memreel",
      [](void* self) -> void* {
        static_cast<Recording*>(self)->run();
        return nullptr;
      },
      this);
}

Header Recording::header() const {
  const ProcessNames names = process_names();
  const std::vector<std::string> arguments = own_arguments();
  std::ifstream maps("/proc/self/maps");
  return {.producer = "memreel " + std::string(version),
          .source = setup_.source,
          .source_name = options_.mask ? masked_text_of_arguments(arguments) : text_of_arguments(arguments),
          .host = names.host,
          .process = names.process,
          .start = start_,
          .machine = names.machine,
          .byte_order = std::endian::native == std::endian::big ? ByteOrder::big : ByteOrder::little,
          .page_size = Bytes{static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))},
          .environment = environment_,
          .versions = loaded_versions(maps)};
}

std::unique_ptr<TraceOutput> Recording::make_output() {
  if (dumps_ == nullptr) return std::make_unique<TraceWriter>(std::move(file_), header());
  return std::make_unique<FlightWriter>(std::move(file_), trace_, options_.mode, header(),
                                        FlightLimits{.size = options_.flight.size, .span = options_.flight.span});
}

void Recording::run() {
  run_until_told();
  if (at_once_.load(std::memory_order_acquire) && setup_.ended) setup_.ended(outcome_);
  done_.store(true, std::memory_order_release);
}

void Recording::run_until_told() {
  const std::unique_ptr<TraceOutput> output = make_output();
  TraceOutput& writer = *output;
  auto* const flight = dynamic_cast<FlightWriter*>(output.get());
  opened_.store(true, std::memory_order_release);
  TraceBuilder builder(*recorder_, writer, setup_.own_code, dumps_ ? &dumps_->triggers() : nullptr, setup_.asks_torch);
  recorder_->attend();
  std::vector<Record> batch;
  std::uint64_t in_file = 0;
  const auto take = [&](Recorder::Draining how) {
    batch.clear();
    recorder_->drain(batch, how);
    builder.add(batch);
    recorder_->settle();
    writer.set_losses({.ring_full = recorder_->lost() - lost_before_,
                       .stack_table_full = recorder_->stacks().refused() - refused_before_,
                       .hook_refused = builder.hook_lost(),
                       .preexisting_allocations = builder.held_before(),
                       .began_late = setup_.began_late});
    events_ = builder.event_count();
    lost_ = recorder_->lost() - lost_before_ + builder.hook_lost();
  };
  const auto sum_up = [&](Result<void> result) {
    timespec spent{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    outcome_ = {
        .trace = trace_,
        .events = in_file,
        .lost = recorder_->lost() - lost_before_ + builder.hook_lost() + builder.event_count() - in_file,
        .cost_ns = recorder_->cost_ns() - cost_before_,
        .own_ns = static_cast<std::uint64_t>(spent.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(spent.tv_nsec),
        .result = std::move(result)};
  };

  auto flushed = std::chrono::steady_clock::now();
  Result<void> written;
  bool out_of_memory = false, waited = false;  // for space on the disk
  while (!ending_.load(std::memory_order_acquire) && written) try {
      recorder_->wait(options_.flush_period);
      take(Recorder::Draining::in_order);
      const bool asked = recorder_->is_flush_asked();
      if (const auto now = std::chrono::steady_clock::now(); asked || now - flushed >= options_.flush_period) {
        if (setup_.look_around && !asked) setup_.look_around();
        written = writer.flush();
        const bool waits = flight != nullptr && flight->awaits_space();
        if (written && waits != std::exchange(waited, waits))
          setup_.say(trace_ + (waits ? ": the disk is full; until it has space, events are only summed up"
                                     : ": the disk has space again, and recording goes on"));
        if (written && !waits) in_file = builder.event_count();
        if (written) recorder_->flushed();
        if (written && flight != nullptr) dumps_->step(*flight);
        flushed = now;
      }
    } catch (const std::exception&) {  // the program handles its own lack of memory: it must not end of ours
      std::vector<Record>().swap(batch);
      written = Error{.what = "there was no memory left to record with", .where = trace_};
      out_of_memory = true;
    }
  if (!written) {
    recorder_->fail();
    has_failed_.store(true, std::memory_order_release);
    if (!out_of_memory) take(Recorder::Draining::in_order);
    sum_up(written);
    failed_(outcome_);
    while (!ending_.load(std::memory_order_acquire)) recorder_->wait(std::chrono::seconds(1));
    if (out_of_memory) return;
  }
  take(Recorder::Draining::in_order);
  take(Recorder::Draining::everything);
  builder.finish();
  if (flight != nullptr && written && writer.flush()) dumps_->finish(*flight);
  const auto finished = writer.finish();  // the first failure, if any
  if (finished) in_file = builder.event_count();
  sum_up(finished);
}

std::optional<std::uint64_t> Recording::ask_for_dump() {
  if (dumps_ == nullptr || has_failed()) return std::nullopt;
  return dumps_->ask();
}

std::optional<Result<std::string>> Recording::dump_of(std::uint64_t question) { return dumps_->answer(question); }

void Recording::end_at_once(std::chrono::milliseconds limit) {
  at_once_.store(true, std::memory_order_release);
  recorder_->close();
  ending_.store(true, std::memory_order_release);
  recorder_->wake();
  stacks::nap_until([&] { return done_.load(std::memory_order_acquire); }, limit, std::chrono::microseconds(200));
}

std::optional<Recording::Outcome> Recording::end() {
  recorder_->close();
  ending_.store(true, std::memory_order_release);
  recorder_->wake();
  if (!join_own_thread(thread_, std::chrono::seconds(10))) return std::nullopt;
  return outcome_;
}

}  // namespace memreel::agent
