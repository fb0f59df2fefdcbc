// Names of native frames, written into finished traces while the program's files are still the ones it ran from.
#pragma once

#include <span>

#include "collector/options/journal.h"
#include "formats/model/result.h"

namespace memreel::record {

/// Runs `memreel symbols`, the program beside this one, on each trace that the journal says was completed. What goes
/// wrong with a trace is said by that program. Errors: it is not there.
Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal);

}  // namespace memreel::record
