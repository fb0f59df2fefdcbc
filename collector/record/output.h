// SPDX-License-Identifier: Apache-2.0
// Where traces go.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "collector/options/journal.h"
#include "formats/model/result.h"

namespace memreel::record {

/// The pattern of trace names (options/options.h) as an absolute path, so that traces stay in place when a program
/// changes its directory. Errors: the directory does not exist or is not writable, or the pattern itself names a
/// directory. Nothing after a placeholder is checked.
Result<std::string> output_pattern(const std::string& given);

// The dumps that a flight recorder wrote next to its trace (collector/trace/flight_dumps.h).

/// Paths of the dumps of the recording `trace`, by number. Skips files of other recordings with matching names.
std::vector<std::string> dumps_of(const std::filesystem::path& trace);

// Resolves native frames in finished traces while the program's files are still the ones it ran from.

/// Runs the sibling program `memreel symbols` on each trace that the journal lists as completed. That program reports
/// problems with individual traces. Errors: the program is missing.
Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal);

}  // namespace memreel::record
