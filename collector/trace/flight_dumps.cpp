#include "collector/trace/flight_dumps.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "formats/model/quantity.h"

namespace memreel::agent {
namespace {

Nanoseconds now() { return std::chrono::system_clock::now().time_since_epoch(); }

/// Copies an open file, whatever its access mode.
Result<void> copy(int file, const std::string& to, unsigned mode) {
  const int source = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return Error{.what = "can't read the recording", .where = to, .remedy = {}};
  auto sink = live_file_sink(to, mode);
  Result<void> result;
  if (!sink) result = sink.error();
  std::array<std::byte, std::size_t{64} << 10U> buffer{};
  while (result) {
    const ssize_t size = ::read(source, buffer.data(), buffer.size());
    if (size <= 0) break;
    result = (*sink)->write(std::span(buffer).first(static_cast<std::size_t>(size)));
  }
  ::close(source);
  if (result) result = (*sink)->close();
  return result;
}

}  // namespace

std::string helper_of(const std::string& library) {
  std::error_code problem;
  const std::filesystem::path here = std::filesystem::path(library).parent_path();
  for (const char* place : {"../bin/memreel", "../../bin/memreel", "memreel"}) {
    const std::filesystem::path candidate = (here / place).lexically_normal();
    if (std::filesystem::is_regular_file(candidate, problem) && ::access(candidate.c_str(), X_OK) == 0)
      return candidate.string();
  }
  return {};
}

std::string dump_name(const std::string& trace, unsigned number) {
  std::filesystem::path path = trace;
  const std::string extension = path.extension().string();
  path.replace_extension();
  return path.string() + "-dump-" + std::to_string(number) + extension;
}

FlightDumps::FlightDumps(const Options& options, std::string trace, std::string helper,
                         std::function<void(std::string)> say)
    : options_(options.dumps),
      mode_(options.mode),
      trace_(std::move(trace)),
      helper_(std::move(helper)),
      say_(std::move(say)),
      triggers_(options.dumps),
      signal_(options.dumps.signal),
      signals_seen_(signal_.count()) {}

std::uint64_t FlightDumps::ask() {
  const std::lock_guard lock(mutex_);
  return ++asked_;
}

std::optional<Result<std::string>> FlightDumps::answer(std::uint64_t question) {
  const std::lock_guard lock(mutex_);
  if (answered_ < question) return std::nullopt;
  return answer_;
}

/// What has triggered since the last call. A failure soon after a dumped one does not get another dump.
std::optional<DumpCause> FlightDumps::cause(Nanoseconds now) {
  {
    const std::lock_guard lock(mutex_);
    if (asked_ > taken_) {
      taken_ = asked_;
      return DumpCause{.reason = DumpReason::asked, .text = "memreel dump"};
    }
  }
  if (const std::uint64_t count = signal_.count(); count != signals_seen_) {
    signals_seen_ = count;
    return DumpCause{.reason = DumpReason::signal, .text = "signal"};
  }
  auto cause = triggers_.due(now);
  const bool is_storm = cause && cause->reason == DumpReason::out_of_memory && last_failure_ &&
                        Clock::now() - *last_failure_ < quiet_time;
  return is_storm ? std::nullopt : cause;
}

void FlightDumps::step(FlightWriter& writer) { step(writer, now()); }

void FlightDumps::step(FlightWriter& writer, Nanoseconds now) {
  if (std::string conflict = signal_.conflict(); !conflict.empty()) say_(std::move(conflict));
  if (last_failure_ && Clock::now() - *last_failure_ >= quiet_time) tell_of_others();
  if (!writing_.empty()) {
    std::string reported;
    if (!process_.has_ended(0, reported)) return;
    ended(reported == "ok" ? Result<void>()
                           : Error{.what = reported.empty() ? "memreel was killed while writing the dump" : reported,
                                   .where = writing_,
                                   .remedy = {}});
  }
  if (const auto found = cause(now)) begin(writer, *found);
}

void FlightDumps::begin(FlightWriter& writer, const DumpCause& cause) {
  std::error_code ignored;
  do writing_ = dump_name(trace_, ++number_);
  while (std::filesystem::exists(std::filesystem::symlink_status(writing_, ignored)));
  if (cause.reason == DumpReason::out_of_memory) {
    ++failures_told_;
    last_failure_ = Clock::now();
    last_failure_dump_ = writing_;
  }
  for (; written_.size() >= options_.kept; written_.pop_front()) std::filesystem::remove(written_.front(), ignored);
  if (start_helper(writer, cause)) return;
  const auto file = writer.file().descriptor();
  const auto copied = file ? copy(*file, writing_, mode_) : Result<void>(file.error());
  if (copied) say_(cause.text + "; dump: " + writing_);
  ended(copied);
}

Result<void> FlightDumps::start_helper(FlightWriter& writer, const DumpCause& cause) {
  if (helper_.empty()) return Error{.what = "memreel's program is missing", .where = trace_, .remedy = {}};
  const auto file = writer.file().descriptor();
  if (!file) return file.error();
  const bool failed = cause.reason == DumpReason::out_of_memory;
  return process_.start(
      {helper_, "flight-dump", writing_, std::to_string(mode_), failed ? "failure" : "other", cause.text}, *file);
}

void FlightDumps::ended(Result<void> result) {
  if (result)
    written_.push_back(writing_);
  else
    say_("no dump: " + result.error().message());
  const std::lock_guard lock(mutex_);
  if (answered_ < taken_) {
    answered_ = taken_;
    answer_ = result ? Result<std::string>(writing_) : Result<std::string>(result.error());
  }
  writing_.clear();
}

/// Reports how many failures one dump represents.
void FlightDumps::tell_of_others() {
  last_failure_.reset();
  const std::uint64_t others = triggers_.failures() - failures_told_;
  failures_told_ = triggers_.failures();
  if (others == 0 || last_failure_dump_.empty()) return;
  say_(memreel::text_of(others) + (others == 1 ? " more request" : " more requests") + " failed after " +
       last_failure_dump_ + " was written; no further dump");
}

void FlightDumps::finish(FlightWriter& writer) {
  constexpr int patience = 5000;
  step(writer, now() + DumpTriggers::patience);  // no refusal can be made good any more
  if (writing_.empty()) return tell_of_others();
  std::string reported;
  if (process_.has_ended(patience, reported))
    ended(reported == "ok" ? Result<void>() : Error{.what = reported, .where = writing_, .remedy = {}});
  tell_of_others();
}

}  // namespace memreel::agent
