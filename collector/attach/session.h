// SPDX-License-Identifier: Apache-2.0
// Attaching to a running program, and detaching.
#pragma once

#include <sys/types.h>

#include "collector/attach/control_socket.h"
#include "collector/options/options.h"
#include "formats/model/result.h"
#include "formats/model/units.h"
#include "formats/reader/trace_reader.h"

namespace memreel::attach {

// The processes on this machine that have a control socket and can be queried.

/// The contents of a control socket's name.
struct Listener {
  std::uint64_t number = 0;  // the process ID in its own namespace, which differs from ours in a container
  std::uint64_t start = 0;   // when it started, in clock ticks since boot

  friend auto operator<=>(const Listener&, const Listener&) = default;
};

/// The control sockets in a text like /proc/net/unix, without duplicates, sorted. Any process can claim a name: verify
/// the socket's owner before trusting it.
std::vector<Listener> listeners_in(std::string_view sockets);

/// Processes with control sockets in this network namespace, by process ID in our namespace, sorted.
std::vector<pid_t> listening_processes();

// What the analyzer finds in a trace that is still being written: memory by category, and leaks so far.

struct CategoryUse {
  std::int32_t device = 0;
  std::string heap, category;
  Bytes bytes;

  friend bool operator==(const CategoryUse&, const CategoryUse&) = default;
};

struct LeakSoFar {
  std::string verdict;  // "leak" or "suspected"
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_per_step = 0;  // bytes
  std::string place;           // "forward (model.py:42)"; empty: no stack

  friend bool operator==(const LeakSoFar&, const LeakSoFar&) = default;
};

struct Findings {
  std::vector<CategoryUse> categories;  // live at the end of what was read; each (device, heap, category) once
  std::vector<LeakSoFar> leaks;         // largest first

  friend bool operator==(const Findings&, const Findings&) = default;
};

/// From a memreel.report/1 document; none if `document` is none. Missing fields are left out.
std::optional<Findings> findings_of(std::string_view document);

/// Analyses share this: one report at a time, using at most a tenth of one CPU in all.
struct Turn {
  bool taken = false;
  std::chrono::steady_clock::time_point due;  // time of the next report
};

/// Repeatedly runs the `memreel` program, found next to this one, to report on `trace`: in its own process, at the
/// lowest priority, with bounded memory. Nothing here blocks.
///
/// The layering between rooms allows nothing else, and it is the better choice: answers are the same as those of
/// `memreel report`, and an analyzer that runs out of memory takes no other process down.
class Analysis {
 public:
  using Clock = std::chrono::steady_clock;

  /// Above this size a report would use more memory than a watcher should: some 30 million events.
  static constexpr Bytes largest_trace{128ULL << 20U};

  /// `turn` must outlive this.
  Analysis(std::string trace, Turn& turn) : trace_(std::move(trace)), turn_(&turn) {}
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;
  ~Analysis();

  /// Takes the finished report's result, and starts the next one when the trace has grown and it is this analysis's
  /// turn.
  void advance(Clock::time_point now);

  /// When the latest report was started.
  Clock::time_point begun() const { return begun_; }

  /// The latest findings; none before the first report.
  const std::optional<Findings>& findings() const { return findings_; }
  /// Why there are no findings, or no newer ones; empty if there is no problem.
  const std::string& problem() const { return problem_; }

 private:
  void begin(Clock::time_point now);
  void end(int status, Clock::time_point now);

  std::string trace_;
  Turn* turn_;
  std::optional<Findings> findings_;
  std::string problem_;
  pid_t child_ = 0;  // 0: none is running
  int output_ = -1;  // memfd that the child writes to
  Clock::time_point begun_;
  std::uint64_t size_ = 0;  // of the trace when the latest report was started
};

// `memreel holders`: what keeps the memory of a program, in Python.

/// As memreel's package says it (formats/model/python_holders.h). `site`: only of memory allocated there, as far as the
/// recording or PyTorch knows ("train.py:12"); empty: of all. Errors: nothing of memreel is in the process, or it does
/// not answer in time.
Result<Message> holders_of(pid_t process, const std::string& site, std::chrono::milliseconds limit);

// `memreel dump`: makes flight recorders write dumps.

/// Returns the exit code. `argv[1]` is "dump" or the first argument.
int run_dump(int argc, char** argv);

struct Joined {
  enum class Door {
    open,     // the agent was already loaded, and dormant
    python,   // Python loaded it on request
    entered,  // it was injected from outside
  };
  Door door = Door::open;
  std::chrono::nanoseconds pause{};  // of one of the program's threads, if it was entered
  Message status;                    // the agent's report on the recording (agent/agent.h)
};

/// Makes sure that the agent is in `process`, where it waits for requests; its status stays empty. Errors: why it can't
/// be, with a remedy; the process is then unchanged.
Result<Joined> enter(pid_t process, std::chrono::milliseconds limit);

/// Starts a recording in `process` with `options`: asks the dormant agent in it, or loads the agent first; at most
/// `limit` in all. Errors: why it can't, with a remedy; the process is then unchanged.
Result<Joined> join(pid_t process, const agent::Options& options, std::chrono::milliseconds limit);

/// Ends the recording and returns its result (agent/agent.h). Errors: nothing is being recorded there.
Result<Message> leave(pid_t process);

Result<Message> status_of(pid_t process);

// Where the memory that a recorded program holds was allocated.

/// The addresses of what is live at the current end of a trace, which may still be written to, and was allocated at
/// `site`: a part of the text "train.py:12 train" of a Python frame in its stack. Of one address in several heaps (a
/// tensor, the segment that begins with it) one is returned; of more than `most` the largest, largest first. Memory:
/// what is live. Errors: the reader's.
Result<std::vector<Address>> allocated_at(TraceReader& trace, const std::string& site, std::size_t most);

}  // namespace memreel::attach
