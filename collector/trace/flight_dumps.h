// When and how a flight recorder is written out: dumps, each a file of its own beside the recording.
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

/// memreel, which belongs to this library's installation; empty when it is not there. `library`: this library's file.
std::string helper_of(const std::string& library);

/// "run-dump-3.reel" for "run.reel".
std::string dump_name(const std::string& trace, unsigned number);

/// The dumps of one recording. A dump is written by a helper process, one at a time; where none can be started, the
/// recording is copied. Failures within quiet_time of a dump for one are counted and told together.
class FlightDumps {
 public:
  static constexpr std::chrono::seconds quiet_time{60};

  /// `helper`: see helper_of(). `say` gets lines for the user.
  FlightDumps(const Options& options, std::string trace, std::string helper, std::function<void(std::string)> say);

  DumpTriggers& triggers() { return triggers_; }

  /// The writing thread, every now and then, after everything was flushed.
  void step(FlightWriter& writer);

  /// The same, at the end: waits some seconds for a dump that is being written.
  void finish(FlightWriter& writer);

  // Any thread.

  /// Asks for a dump; a number to ask for its answer with.
  std::uint64_t ask();
  /// The dump's file, or why there is none; none while it is being written.
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

  std::string writing_;  // its file; empty: none
  std::deque<std::string> written_;
  unsigned number_ = 0;
  std::uint64_t signals_seen_, failures_told_ = 0;
  std::optional<Clock::time_point> last_failure_;  // that was dumped
  std::string last_failure_dump_;

  std::mutex mutex_;  // of what follows; never held by a thread of the program
  std::uint64_t asked_ = 0, taken_ = 0, answered_ = 0;
  Result<std::string> answer_ = std::string();
};

}  // namespace memreel::agent
