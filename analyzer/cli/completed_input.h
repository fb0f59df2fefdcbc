// What of a trace is judged: a trace may hold the program's requests and what their allocator asked of the driver.
#pragma once

#include <filesystem>

#include "analyzer/replay/program_heaps.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel::cli {

/// Opens a trace to judge it: its levels are tied (analyzer/history/levels.h), so that nothing is counted twice.
/// `memory_limit` as in open_input().
Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit);

/// The same for commands that show stacks: native frames have their names (analyzer/cli/input.h).
Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols);

/// What open_completed() does with a trace once it is read.
void complete_input(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

}  // namespace memreel::cli
