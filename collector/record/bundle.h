// Resolves native frames in finished traces while the program's files are still the ones it ran from.
#pragma once

#include <span>

#include "collector/options/journal.h"
#include "formats/model/result.h"

namespace memreel::record {

/// Runs the sibling program `memreel symbols` on each trace that the journal lists as completed. That program reports
/// problems with individual traces. Errors: the program is missing.
Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal);

}  // namespace memreel::record
