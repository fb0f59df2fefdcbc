// How every command opens its trace, and what it always says about one.
#pragma once

#include <filesystem>

#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::cli {

enum class Progress : bool { hidden, shown };

/// A trace or any importable file, with a progress bar; what the trace lacks is noted on standard error.
Result<Trace> open_input(const std::filesystem::path& file, Progress progress = Progress::shown);

/// open_input() for commands that show stacks: native frames get their names, with a progress bar; why some have none
/// is noted on standard error.
Result<Trace> open_input(const std::filesystem::path& file, const SymbolOptions& symbols);

/// The second half of it.
void name_native_frames(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

/// Adds the options that say where names of native frames come from.
void add_symbol_options(CLI::App& command, SymbolOptions& symbols);

}  // namespace memreel::cli
