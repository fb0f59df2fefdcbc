// A trace that contains the names of its native frames.
#pragma once

#include <filesystem>
#include <functional>

#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"

namespace memreel {

/// Writes `trace` to `output`, which may be the same file, with functions, files and lines in its frames, so that it
/// can be read where the recorded modules are missing. `output` is replaced once it is complete. Memory: the trace's
/// tables and one block. Errors: the trace can't be read or is damaged (what is known of the damage would be lost), or
/// `output` can't be written.
Result<SymbolFindings> bundle_symbols(
    const std::filesystem::path& trace, const std::filesystem::path& output, const SymbolOptions& options,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

}  // namespace memreel
