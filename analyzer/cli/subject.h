// What of a trace is judged: a trace may hold the program's requests and what their allocator asked of the driver.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "analyzer/replay/prepared.h"
#include "analyzer/replay/replay.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel::cli {

/// Opens a trace to judge it: its levels are tied (analyzer/history/levels.h), so that nothing is counted twice.
Result<Trace> open_subject(const std::filesystem::path& file);

/// The same for commands that show stacks: native frames have their names (analyzer/cli/input.h).
Result<Trace> open_subject(const std::filesystem::path& file, const SymbolOptions& symbols);

/// What open_subject() does with a trace once it is read.
void prepare_subject(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

/// Those of frameworks where there are any: what they asked of the driver is their allocator's doing, not the
/// program's.
std::vector<Prepared> only_requests(std::vector<Prepared> heaps);

/// PyTorch's heaps where there are any, else those of other frameworks, else the driver's.
std::vector<Prepared> program_heaps(const Trace& trace);

/// The allocator that the heaps ran with, and those of its settings that are not the default; nothing when that is not
/// known. Settings are the process's: any of its heaps knows them.
std::optional<PolicySpec> recorded_policy(const Trace& trace, const std::vector<Prepared>& heaps);

}  // namespace memreel::cli
