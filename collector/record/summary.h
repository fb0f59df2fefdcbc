// The closing paragraph of a recording: where the traces are, and what is in them at a glance.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "collector/options/journal.h"
#include "collector/record/child.h"
#include "collector/record/error_log.h"
#include "collector/record/recorded_trace.h"

namespace memreel::record {

/// The entries of a journal, without damaged lines; empty if the file does not exist.
std::vector<agent::JournalEntry> read_journal(const std::filesystem::path& journal);

/// "run.reel (1.20 MiB): GPU 0: peak 3.50 GiB, 12.0 MiB live at exit; 1,234 events, none lost", or why it can't be
/// read. `moment` describes the end of the trace.
std::string summary_of_trace(const RecordedTrace& trace, std::string_view moment = "at exit");

/// One paragraph of newline-terminated lines. `program` is its name as the user typed it; `dormant`: it was to record
/// only on request. After an end with an error and without a recorded failure, what the error log says about memory.
std::string summary_of(const std::string& program, const Ending& ending,
                       const std::vector<agent::JournalEntry>& journal, const ErrorLog& errors, bool dormant);

}  // namespace memreel::record
