// SPDX-License-Identifier: Apache-2.0
// A trace being written: the file and the thread that writes it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>

#include "collector/options/options.h"
#include "collector/recorder/recorder.h"
#include "collector/stacks/module_table.h"
#include "collector/trace/flight_dumps.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/flight_writer.h"
#include "formats/writer/trace_writer.h"

namespace memreel::agent {

class Recording {
 public:
  /// The result of a recording.
  struct Outcome {
    std::string trace;
    std::uint64_t events = 0;   // in the file
    std::uint64_t lost = 0;     // not in the file
    std::uint64_t cost_ns = 0;  // the program's threads' time, estimated
    std::uint64_t own_ns = 0;   // CPU time of the writing thread
    Result<void> result;        // what went wrong, e.g. a full disk
  };

  struct Setup {
    std::string source;  // which backend
    bool began_late = false;
    bool asks_torch = false;       // for what its allocator holds, once the recording has begun
    bool recorder_is_new = false;  // all its counts are this recording's
    stacks::AddressRange own_code;
    std::function<void()> look_around;          // called periodically by the writing thread
    std::string library;                        // the file that contains own_code
    std::function<AskedHolders()> ask_holders;  // what keeps memory, in Python; null: not wanted
    std::function<void(std::string)> say;       // prints messages for the user; called by the writing thread
    std::function<void(const Outcome&)> ended;  // called by the writing thread after end_at_once()
  };

  /// Creates the file and starts the thread, with all signals blocked. The thread calls `failed` if writing fails: from
  /// then on events are only counted, as lost, until end().
  static Result<std::unique_ptr<Recording>> begin(const Options& options, Recorder& recorder, const Setup& setup,
                                                  std::function<void(const Outcome&)> failed);

  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Only after end().
  ~Recording() = default;

  /// Closes the recorder, writes the remaining records, completes the file. None if the thread makes no progress for
  /// some seconds: the file is then as if the program had been killed, and this object must not be destroyed.
  std::optional<Outcome> end();

  /// The same for a thread that may be in the middle of anything, even of allocating memory: allocates nothing and
  /// waits for `limit` at most, until `ended` of the setup has returned. The object must not be destroyed any more.
  void end_at_once(std::chrono::milliseconds limit);

  const std::string& trace() const { return trace_; }

  /// The process's rank, as its launcher set it when the recording began; empty: none.
  const std::string& rank() const { return rank_; }

  /// Whether writing has failed.
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }

  /// What is in the trace now, or will be within moments. Any thread.
  struct Progress {
    std::uint64_t events = 0, lost = 0;
  };
  /// Requests a dump; returns a number to query its result with. None if this is not a flight recorder.
  std::optional<std::uint64_t> ask_for_dump();
  /// The dump's file, or why there is none; none while it is in progress. Any thread.
  std::optional<Result<std::string>> dump_of(std::uint64_t question);

  Progress progress() const { return {.events = events_, .lost = lost_}; }

 private:
  Recording(Options options, Recorder& recorder, Setup setup, std::string trace, std::string rank,
            std::unique_ptr<LiveFile> file, std::function<void(const Outcome&)> failed);
  bool start_thread();
  void await_opened() const;
  void run();
  void run_until_told();
  Header header() const;
  std::unique_ptr<TraceOutput> make_output();

  Options options_;
  Recorder* recorder_;
  Setup setup_;
  std::string trace_, rank_;
  std::unique_ptr<LiveFile> file_;
  std::unique_ptr<FlightDumps> dumps_;  // if a flight recorder
  std::function<void(const Outcome&)> failed_;
  // From begin(), on the program's own thread: another one may change the environment.
  Nanoseconds start_;
  Variables environment_;
  // The recorder's counts for earlier traces. Read before any thread records for this one.
  std::uint64_t lost_before_, cost_before_, refused_before_;
  pthread_t thread_{};
  std::atomic<bool> opened_ = false;  // the file starts as a trace
  std::atomic<bool> ending_ = false, has_failed_ = false;
  std::atomic<bool> at_once_ = false, done_ = false;
  std::atomic<std::uint64_t> events_ = 0, lost_ = 0;
  Outcome outcome_;  // the thread's, until it is joined
};

}  // namespace memreel::agent
