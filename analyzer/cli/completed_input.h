// Opens traces for analysis: a trace may hold both the program's requests and what their allocator requested from the
// driver.
#pragma once

#include <filesystem>

#include "analyzer/replay/program_heaps.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel::cli {

/// Opens a trace for analysis: links its levels (analyzer/history/levels.h) so that nothing is counted twice.
/// `memory_limit` as in open_input().
Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit);

/// The same for commands that show stacks: also symbolizes native frames (analyzer/cli/input.h).
Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols);

/// The steps of open_completed() after the trace is read.
void complete_input(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

}  // namespace memreel::cli
