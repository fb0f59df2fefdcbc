// What was recorded of one process: its trace, and what the library said of it.
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
  std::uint64_t lost = 0;          // events that the process had and the trace lacks
  std::optional<double> overhead;  // time spent recording over the time that the program ran
  std::string stopped;             // why recording ended before the program did; empty: it did not
  bool killed = false;             // before the library could end the trace
  std::vector<std::string> dumps;  // paths of those that a flight recorder wrote and keeps, oldest first
};

/// Of a trace about which nothing is known but its file.
RecordedTrace recorded_trace(const std::string& file, std::uint64_t process);

/// Of a trace that `journal` has an entry of `began` for. `time`: how long the program ran.
RecordedTrace recorded_trace(const agent::JournalEntry& began, const std::vector<agent::JournalEntry>& journal,
                             std::chrono::nanoseconds time);

}  // namespace memreel::record
