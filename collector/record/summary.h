// SPDX-License-Identifier: Apache-2.0
// What a recording leaves: where traces go, and the closing paragraph that says where they are and what is in them at a
// glance.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <span>
#include <vector>

#include "collector/options/journal.h"
#include "collector/record/child.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::record {

// What the launcher reports about a finished trace.

struct DeviceFacts {
  Bytes peak;                  // most bytes held from the driver at once
  bool peak_about = false;     // frees may be lost
  bool peak_at_least = false;  // it was before the events that a flight recorder keeps, of which sums are known
  Bytes end;                   // bytes held at the end
  std::uint64_t failures = 0;
};

struct TraceFacts {
  std::map<std::int32_t, DeviceFacts> devices;  // by ordinal; without host memory
  std::uint64_t events = 0;
  std::uint64_t folded = 0;  // older events that a flight recorder folded into sums
  std::uint64_t lost = 0;
  Bytes file_size;
  bool complete = false;  // it has its footer: the program was not killed
};

/// Reads a whole trace, block by block. Errors: it can't be read, or is not a trace.
Result<TraceFacts> facts_of(const std::filesystem::path& trace);

// The recording of one process: its trace, and what the agent reported about it.

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

// What the program prints to its standard error, where that is a file: read after the program's end, never in its way.

/// The part of the log that is written from the construction on. A pipe or a terminal is the program's alone: its
/// content is unknown.
class ErrorLog {
 public:
  ErrorLog();

  /// What `memreel explain` says of the out-of-memory errors in it, in newline-terminated lines. Empty if there are
  /// none or the content is unknown.
  std::string explanation() const;

 private:
  off_t begin_ = -1;
};

/// The entries of a journal, without damaged lines; empty if the file does not exist.
std::vector<agent::JournalEntry> read_journal(const std::filesystem::path& journal);

/// "run.reel (1.20 MiB): GPU 0: peak 3.50 GiB, 12.0 MiB live at exit; 1,234 events, none lost", or why it can't be
/// read. `moment` describes the end of the trace.
std::string summary_of_trace(const RecordedTrace& trace, std::string_view moment = "at exit");

/// One paragraph of newline-terminated lines. `program` is its name as the user typed it; `dormant`: it was to record
/// only on request. After an end with an error and without a recorded failure, what the error log says about memory.
std::string summary_of(const std::string& program, const Ending& ending,
                       const std::vector<agent::JournalEntry>& journal, const ErrorLog& errors, bool dormant);

// Where traces go.

/// The pattern of trace names (options/options.h) as an absolute path, so that traces stay in place when a program
/// changes its directory. Errors: the directory does not exist or is not writable, or the pattern itself names a
/// directory, a device or a pipe. Nothing after a placeholder is checked.
Result<std::string> output_pattern(const std::string& given);

// The dumps that a flight recorder wrote next to its trace (collector/trace/flight_dumps.h).

/// Paths of the dumps of the recording `trace`, by number. Skips files of other recordings with matching names.
std::vector<std::string> dumps_of(const std::filesystem::path& trace);

// Resolves native frames in finished traces while the program's files are still the ones it ran from.

/// Runs the sibling program `memreel symbols` on each trace that the journal lists as completed. That program reports
/// problems with individual traces. Errors: the program is missing.
Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal);

}  // namespace memreel::record
