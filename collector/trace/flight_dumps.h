// SPDX-License-Identifier: Apache-2.0
// When and how a flight recorder writes dumps, each a file of its own next to the recording, which memreel then reads.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "collector/options/options.h"
#include "formats/model/files.h"
#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/writer/flight_writer.h"

namespace memreel::agent {

// Runs memreel from within a program that must not notice.

/// A process that is not the program's child: no wait() of the program sees it, and no signal reports its end. Its
/// environment is empty, its standard input and output are closed; its standard error is the program's.
class HelperProcess {
 public:
  /// The helper's file descriptors besides 0 to 2.
  static constexpr int input = 3, report = 4, more_input = 5;

  HelperProcess() = default;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  ~HelperProcess() { forget(); }

  /// Starts `arguments` (the first is the program's path) with `file`, an open file of this process, as its `input`.
  /// What finish_input() gets is its `more_input`. The program stops for no longer than the start takes, and no memory
  /// is copied. Errors: the system refuses, or this process adopts orphans (a subreaper or init), so the helper would
  /// be among its children.
  Result<void> start(const std::vector<std::string>& arguments, int file);

  bool is_running() const { return alive_ >= 0; }

  /// Closes `more_input` after `text`, of which what does not fit into a pipe is left out.
  void finish_input(std::string_view text);

  /// What it wrote to `report`, once it has ended; waits at most `milliseconds`.
  bool has_ended(int milliseconds, std::string& reported);

  /// Stops tracking it.
  void forget();

 private:
  int alive_ = -1;                        // the helper holds the other end
  int more_ = -1;                         // likewise
  std::optional<FileIdentity> identity_;  // of alive_: the program may close files it does not know
  std::optional<FileIdentity> more_identity_;
  std::string reported_;
};

// The signal that requests a dump.

/// Counts a signal while it lives, unless the program itself handles or ignores it: the program takes precedence. At
/// most one per process. In a forked child the signal behaves as if it were not ours.
class DumpSignal {
 public:
  /// `signal` 0: none.
  explicit DumpSignal(int signal);
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;
  ~DumpSignal();

  /// How often it arrived.
  std::uint64_t count() const;

  /// A message for the user, once, if the program handles the signal. Else empty.
  std::string conflict();

 private:
  bool is_ours() const;

  int signal_;
  bool installed_ = false, told_ = false;
};

// Events that make a flight recorder write a dump.

enum class DumpReason : std::uint8_t { out_of_memory, used, growth, signal, asked };

/// The reason, for people: "out of memory", "95% of GPU 0's memory is used", ...
struct DumpCause {
  DumpReason reason = DumpReason::asked;
  std::string text;
};

/// A request that a framework refuses is a failure to the program. After a refusal by the driver, a framework may retry
/// after freeing memory, or with a smaller size: if the thread soon gets at least half as much, it did not fail.
class DumpTriggers {
 public:
  /// How long after a driver refusal such a retry counts, in event time.
  static constexpr Nanoseconds patience = std::chrono::milliseconds(200);

  explicit DumpTriggers(const DumpOptions& options) : options_(options) {}

  void see(const Event& event, const Tables& tables);

  /// What has triggered by `now`, in event time; repeated requests are reported once. Failures are reported one at a
  /// time, with a count.
  std::optional<DumpCause> due(Nanoseconds now);

  /// Requests that failed so far.
  std::uint64_t failures() const { return failures_; }

 private:
  struct Refusal {
    Nanoseconds time{};
    Bytes size;
    std::int32_t device = 0;
    std::uint64_t count = 1;  // failed retries
  };
  struct Device {
    bool over = false, grows = false;                // reported, until no longer true
    std::deque<std::pair<Nanoseconds, Bytes>> lows;  // within the growth period: each lower than all after it
  };

  void refused(const Event& event, const Tables& tables);
  void sampled(const Event& event, const Tables& tables);
  void fail(Bytes size, std::int32_t device, std::uint64_t count = 1);

  DumpOptions options_;
  std::unordered_map<std::uint32_t, Refusal> refusals_;  // by the driver, by thread
  std::map<std::int32_t, Device> devices_;
  std::uint64_t failures_ = 0;
  std::optional<DumpCause> failure_, limit_;
};

/// A walk over the program's Python objects that was asked for: its text, once it has ended (parse_python_holders());
/// none before. Destroying it withdraws the request. `begun`: whether it runs.
using AskedHolders = std::function<std::optional<std::string>(bool& begun)>;

/// The memreel program of this agent's installation; empty if it is missing. `library`: the agent's file.
std::string helper_of(const std::string& library);

/// "run-dump-3.reel" for "run.reel".
std::string dump_name(const std::string& trace, unsigned number);

/// The dumps of one recording. A helper process writes them, one at a time; if it can't start or ends without a word,
/// as when a library is missing or the kernel kills it, the recording is copied. Failures within quiet_time of a
/// failure's dump are counted and reported together.
class FlightDumps {
 public:
  static constexpr std::chrono::seconds quiet_time{60};

  /// `helper`: see helper_of(). `say` receives messages for the user. `ask_holders` asks for a walk, or returns null if
  /// there can be none; may be null.
  FlightDumps(const Options& options, std::string trace, std::string helper, std::function<void(std::string)> say,
              std::function<AskedHolders()> ask_holders = {});

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
  void pass_holders(bool wait);
  void helper_ended(FlightWriter& writer, const std::string& reported);
  void copy_recording(FlightWriter& writer);
  void ended(Result<void> result);
  void tell_of_others();

  DumpOptions options_;
  unsigned mode_;
  std::string trace_, helper_;
  std::function<void(std::string)> say_;
  DumpTriggers triggers_;
  DumpSignal signal_;
  HelperProcess process_;

  std::function<AskedHolders()> ask_holders_;
  AskedHolders holders_;  // those asked for the dump in progress
  Clock::time_point holders_asked_;
  std::chrono::milliseconds holders_patience_{};  // until the walk begins

  std::string writing_, cause_;  // the dump in progress; empty: none
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
