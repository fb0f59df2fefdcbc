// The library's life in a process: when it records, when it does not, and what it says about that.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "collector/options/options.h"
#include "collector/recorder/usage.h"
#include "collector/trace/recording.h"
#include "formats/model/result.h"

namespace memreel::agent {

/// Begins to record this process as its environment says. Does nothing when it records already, or is told to stay
/// dormant, or has failed to: a message says so, and the program runs on unrecorded. Any thread. True while recording.
bool start();

/// What a process does at a moment.
struct Status {
  bool recording = false;
  std::string trace, source, rank;  // when it does: the file, where calls are seen, and which of a job it is
  Recording::Progress progress;
  MemoryUsage memory;
};

/// Begins to record a program that runs already, as `options` say. Errors: what keeps it from that, e.g. that it
/// records already. The program's output stays as it is, whatever happens.
Result<Status> join(const Options& options);

Status status();

/// Has the flight recorder written out and waits for it: the dump's file. Errors: there is none, or it did not get
/// done.
Result<std::string> dump(std::chrono::milliseconds limit);

/// stop(), for whoever called join(). None when nothing was recorded.
std::optional<Recording::Outcome> leave(std::string_view why);

/// Completes the trace. `why` goes into the journal; empty: the program ends. Does nothing when nothing is recorded.
void stop(std::string_view why);

/// Begins to record again after stop(), or when dormant, into another file.
bool restart();

/// Another part of the program is about to subscribe to CUPTI. Both have it where both share it. Else it is left to
/// that part, and the driver's calls are taken as they pass through; unless the options want CUPTI and nothing else.
/// Calls that are under way at that moment may be missed. Does nothing when CUPTI is not held.
void cupti_wanted(bool shares);

}  // namespace memreel::agent
