#include "collector/agent/recording.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "collector/agent/own_thread.h"
#include "collector/agent/trace_builder.h"
#include "collector/stacks/nap.h"
#include "memreel/version.h"

namespace memreel::agent {
namespace {

/// The program's arguments, with spaces between.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (text.ends_with('\0')) text.pop_back();
  for (char& c : text)
    if (c == '\0') c = ' ';
  return text;
}

struct NewFile {
  std::string name;
  std::unique_ptr<ByteSink> sink;
};

/// Under the pattern's name, or with a number added when that exists.
Result<NewFile> create(const std::string& pattern, const ProcessNames& names) {
  for (unsigned attempt = 0;; ++attempt) {
    std::error_code ignored;
    const std::string name = std::filesystem::absolute(trace_name(pattern, names, attempt), ignored).string();
    auto sink = live_file_sink(name);
    if (sink) return NewFile{name, *std::move(sink)};
    if (!std::filesystem::exists(std::filesystem::symlink_status(name, ignored)) || attempt == 1000)
      return sink.error();
  }
}

}  // namespace

Result<std::unique_ptr<Recording>> Recording::begin(const Options& options, Recorder& recorder, const Subject& subject,
                                                    std::function<void(const Outcome&)> failed) {
  auto file = create(options.output, process_names());
  if (!file) return file.error();
  std::unique_ptr<Recording> recording(
      new Recording(options, recorder, subject, file->name, std::move(file->sink), std::move(failed)));
  if (!recording->start_thread())
    return Error{
        .what = "no thread can be started", .where = recording->trace(), .remedy = "raise the limit (ulimit -u)"};
  recording->await_opened();
  return recording;
}

/// A program that is killed at once must leave a file that opens. The wait has an end, because the program may hold the
/// loader's lock, which the new thread can need.
void Recording::await_opened() const {
  constexpr std::chrono::microseconds pause{50};
  for (int turn = 0; turn < 1000 && !opened_.load(std::memory_order_acquire); ++turn) stacks::nap(pause);
}

Recording::Recording(Options options, Recorder& recorder, Subject subject, std::string trace,
                     std::unique_ptr<ByteSink> sink, std::function<void(const Outcome&)> failed)
    : options_(std::move(options)),
      recorder_(&recorder),
      subject_(std::move(subject)),
      trace_(std::move(trace)),
      sink_(std::move(sink)),
      failed_(std::move(failed)),
      lost_before_(recorder.lost()),
      cost_before_(recorder.cost_ns()),
      refused_before_(recorder.stacks().refused()) {}

bool Recording::start_thread() {
  return start_own_thread(
      thread_, "memreel",
      [](void* self) -> void* {
        static_cast<Recording*>(self)->run();
        return nullptr;
      },
      this);
}

void Recording::run() {
  const ProcessNames names = process_names();
  TraceWriter writer(std::move(sink_), {.producer = "memreel " + std::string(version),
                                        .source = subject_.source,
                                        .source_name = command_line(),
                                        .host = names.host,
                                        .process = names.process});
  opened_.store(true, std::memory_order_release);
  TraceBuilder builder(*recorder_, writer, subject_.own_code);
  std::vector<Record> batch;
  const auto take = [&](Recorder::Draining how) {
    batch.clear();
    recorder_->drain(batch, how);
    builder.add(batch);
    recorder_->settle();
    writer.set_losses({.ring_full = recorder_->lost() - lost_before_,
                       .stack_table_full = recorder_->stacks().refused() - refused_before_,
                       .hook_refused = builder.hook_lost(),
                       .preexisting_allocations = builder.held_before(),
                       .began_late = subject_.began_late});
    events_ = builder.event_count();
    lost_ = recorder_->lost() - lost_before_ + builder.hook_lost();
  };
  const auto sum_up = [&](Result<void> result) {
    timespec spent{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    outcome_ = {
        .trace = trace_,
        .events = builder.event_count(),
        .lost = recorder_->lost() - lost_before_ + builder.hook_lost(),
        .cost_ns = recorder_->cost_ns() - cost_before_,
        .own_ns = static_cast<std::uint64_t>(spent.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(spent.tv_nsec),
        .result = std::move(result)};
  };

  auto flushed = std::chrono::steady_clock::now();
  Result<void> written;
  while (!ending_.load(std::memory_order_acquire) && written) {
    recorder_->wait(options_.flush_period);
    take(Recorder::Draining::in_order);
    if (const auto now = std::chrono::steady_clock::now(); now - flushed >= options_.flush_period) {
      if (subject_.look_around) subject_.look_around();
      written = writer.flush();
      flushed = now;
    }
  }
  if (!written) {
    recorder_->close();
    sum_up(written);
    failed_(outcome_);
    return;
  }
  take(Recorder::Draining::in_order);
  take(Recorder::Draining::everything);
  written = writer.finish();
  sum_up(written);
}

std::optional<Recording::Outcome> Recording::end() {
  recorder_->close();
  ending_.store(true, std::memory_order_release);
  recorder_->wake();
  if (!join_own_thread(thread_, std::chrono::seconds(10))) return std::nullopt;
  return outcome_;
}

}  // namespace memreel::agent
