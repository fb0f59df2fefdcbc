// When and how a flight recorder writes dumps, each a file of its own next to the recording.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "collector/options/options.h"
#include "collector/trace/dump_signal.h"
#include "collector/trace/dump_triggers.h"
#include "collector/trace/helper_process.h"
#include "formats/model/result.h"
#include "formats/writer/flight_writer.h"

namespace memreel::agent {

/// The memreel program of this agent's installation; empty if it is missing. `library`: the agent's file.
std::string helper_of(const std::string& library);

/// "run-dump-3.reel" for "run.reel".
std::string dump_name(const std::string& trace, unsigned number);

/// The dumps of one recording. A helper process writes them, one at a time; if none can be started, the recording is
/// copied. Failures within quiet_time of a failure's dump are counted and reported together.
class FlightDumps {
 public:
  static constexpr std::chrono::seconds quiet_time{60};

  /// `helper`: see helper_of(). `say` receives messages for the user.
  FlightDumps(const Options& options, std::string trace, std::string helper, std::function<void(std::string)> say);

  DumpTriggers& triggers() { return triggers_; }

  /// Called periodically by the writing thread, after everything was flushed.
  void step(FlightWriter& writer);

  /// The same, at the end: waits a few seconds for a dump in progress.
  void finish(FlightWriter& writer);

  // Any thread.

  /// Requests a dump; returns a number to query its result with.
  std::uint64_t ask();
  /// The dump's file, or why there is none; none while it is in progress.
  std::optional<Result<std::string>> answer(std::uint64_t question);

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<DumpCause> cause(Nanoseconds now);
  void step(FlightWriter& writer, Nanoseconds now);
  void begin(FlightWriter& writer, const DumpCause& cause);
  Result<void> start_helper(FlightWriter& writer, const DumpCause& cause);
  void ended(Result<void> result);
  void tell_of_others();

  DumpOptions options_;
  unsigned mode_;
  std::string trace_, helper_;
  std::function<void(std::string)> say_;
  DumpTriggers triggers_;
  DumpSignal signal_;
  HelperProcess process_;

  std::string writing_;  // the dump in progress; empty: none
  std::deque<std::string> written_;
  unsigned number_ = 0;
  std::uint64_t signals_seen_, failures_told_ = 0;
  std::optional<Clock::time_point> last_failure_;  // the latest one with a dump
  std::string last_failure_dump_;

  std::mutex mutex_;  // for the members below; never held by the program's threads
  std::uint64_t asked_ = 0, taken_ = 0, answered_ = 0;
  Result<std::string> answer_ = std::string();
};

}  // namespace memreel::agent
