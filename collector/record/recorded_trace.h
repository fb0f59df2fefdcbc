// The recording of one process: its trace, and what the agent reported about it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/options/journal.h"
#include "collector/record/trace_facts.h"
#include "formats/model/result.h"

namespace memreel::record {

struct RecordedTrace {
  std::string file;  // absolute path
  std::uint64_t process = 0;
  Result<TraceFacts> facts;        // or why it can't be read
  std::uint64_t lost = 0;          // events missing from the trace
  std::optional<double> overhead;  // time spent recording over the program's run time
  std::string stopped;             // why recording ended before the program did; empty if it did not
  bool cut = false;                // the program ended before the agent could complete the trace
  bool replaced = false;           // because it replaced itself (exec)
  std::vector<std::string> dumps;  // paths of the dumps that a flight recorder wrote and kept, oldest first
};

/// For a trace about which only the file is known.
RecordedTrace recorded_trace(const std::string& file, std::uint64_t process);

/// For a trace with a `began` entry in `journal`. `time`: how long the program ran.
RecordedTrace recorded_trace(const agent::JournalEntry& began, const std::vector<agent::JournalEntry>& journal,
                             std::chrono::nanoseconds time);

}  // namespace memreel::record
