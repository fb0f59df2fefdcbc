// The paragraph that ends a recording: where the traces are and what is in them at a glance.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collector/agent/journal.h"
#include "collector/record/child.h"

namespace memreel::record {

/// The lines of a journal; those that are damaged are left out, and a file that is not there has none.
std::vector<agent::JournalEntry> read_journal(const std::filesystem::path& journal);

/// One paragraph, lines ended by newlines. `program` is its name as the user typed it.
std::string summary_of(const std::string& program, const Ending& ending,
                       const std::vector<agent::JournalEntry>& journal);

}  // namespace memreel::record
