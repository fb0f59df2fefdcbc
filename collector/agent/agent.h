// SPDX-License-Identifier: Apache-2.0
// The agent's life cycle in a process: when it records, when it does not, and what it reports about that.
#pragma once

#include <csignal>
#include <functional>

#include "collector/options/options.h"
#include "collector/recorder/recorder.h"
#include "collector/recorder/usage.h"
#include "collector/trace/recording.h"
#include "formats/model/result.h"

namespace memreel::agent {

// What the agent writes on the program's own threads: messages for the user, and journal lines.

/// While it lives, writing can't kill the program: neither SIGPIPE when the reader is gone, nor SIGXFSZ at the file
/// size limit. Discards signals that the writes caused; signals from elsewhere stay pending until it is destroyed.
class HarmlessWrites {
 public:
  HarmlessWrites();
  HarmlessWrites(const HarmlessWrites&) = delete;
  HarmlessWrites& operator=(const HarmlessWrites&) = delete;
  ~HarmlessWrites();

 private:
  sigset_t made_{}, before_{};
};

/// One line on standard error, prefixed "memreel: ".
void say(const std::string& text);

/// Starts recording this process as its environment says. Does nothing if it already records, must stay dormant, or has
/// failed to start: a message says so, and the program runs on unrecorded. Any thread. Returns true while recording.
bool start();

/// What the agent is doing right now.
struct Status {
  bool recording = false;
  std::string trace, source, rank;  // while recording: the file, where calls are observed, the rank in its job
  Recording::Progress progress;
  MemoryUsage memory;
};

/// Starts recording a program that is already running, with `options`. Errors: the reason it can't, e.g. that it
/// already records. Never writes to the program's output.
Result<Status> join(const Options& options);

Status status();

/// Makes the flight recorder write a dump and waits for it; returns the dump's file. Errors: there is no flight
/// recorder, or the dump did not finish in time.
Result<std::string> dump(std::chrono::milliseconds limit);

/// What keeps the memory, in Python (parse_python_holders()), without blocks: as much as fits in a message. `site` and
/// `allocated`: of table_of_site() (memreel/holding.py); empty: all memory. The main thread makes the walk at its next
/// safe point. Errors: there is no Python, or no such point within some seconds.
Result<std::string> holders(const std::string& site, const std::string& allocated);

/// stop(), for the caller of join(). None if nothing was recorded.
std::optional<Recording::Outcome> leave(std::string_view why);

/// Completes the trace. `why` goes into the journal; empty: the program is exiting. Does nothing if nothing is
/// recorded.
void stop(std::string_view why);

/// stop(), and nothing else of the agent ever runs in this process: the kernel is about to confine all of its threads
/// to system calls that don't include ours.
void retire(std::string_view why);

/// Starts recording again, into another file, after stop() or when dormant.
bool restart();

/// Another component of the program is about to subscribe to CUPTI. If both sides support sharing, they share it.
/// Otherwise the agent hands CUPTI over and switches to the interposed driver calls, unless the options demand CUPTI.
/// May miss calls that are in progress at that moment. Does nothing if the agent does not hold CUPTI.
void cupti_wanted(bool shares);

}  // namespace memreel::agent

// The agent's control socket: clients that may control this process start and stop recording through it
// (collector/attach/control_socket.h).
//
// | question | fields | answer |
// |---|---|---|
// | start | variables of options.h | as for status, or the error |
// | stop | | trace, events, lost, cost_ns, own_ns; trace is empty when nothing was recorded |
// | dump | | trace: the dump's file |
// | holders | site, allocated: of holders(), above | holders: its text |
// | status | | the fields in attach/process.h |

namespace memreel::agent::control {

/// Serves requests for the life of the process, in its own thread, which sleeps between requests. Does nothing if a
/// thread already listens.
void listen();

/// Serves requests in the calling thread until a recording is stopped, or nobody starts one for ten seconds. Returns at
/// once if a thread already listens. Calls `may_clean_up` with each request until it returns true.
void visit(const std::function<bool()>& may_clean_up);

/// Runs visit() in its own thread.
void invite();

/// Makes the thread that serves requests end.
void hang_up();

}  // namespace memreel::agent::control

// Python, PyTorch and annotated libraries may load at any time, often after recording began.

namespace memreel::agent {

/// Lets a walk over Python's objects that a thread of ours asked for begin soon, where that takes a thread.
void hurry_walk();

/// Asks for what keeps the memory, in Python, for the dumps of a flight recorder; null: not wanted, or memreel's Python
/// package is not installed. `library`: the agent's file.
std::function<AskedHolders()> asker_of_holders(const Options& options, const std::string& library);

/// Connects newly loaded frameworks to `recorder`, as the options say.
/// Called when a recording starts, and periodically by the writing thread: takes the dynamic loader's lock. Returns a
/// message for the user, each one only once; usually empty.
std::string look_for_frameworks(const Options& options, Recorder& recorder);

/// A recording of a running program is about to begin: hooks the frameworks.
void hook_frameworks(const Options& options);

/// It has begun: asks for what they already hold.
void joined_frameworks(const Options& options);

/// The recording has ended, or did not begin: removes all hooks from the frameworks.
void left_frameworks();

}  // namespace memreel::agent
