// How every command opens its trace, and what it always says about one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/reader/trace_reader.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::cli {

enum class Progress : bool { hidden, shown };

/// A trace or any importable file, with a progress bar; what the trace lacks is noted on standard error.
/// `memory_limit`: what the file may ask for; 0: as its size suggests.
Result<Trace> open_input(const std::filesystem::path& file, Bytes memory_limit, Progress progress = Progress::shown);

/// The bytes of a trace, or of what any importable file is imported as, with a progress bar. Fails where they do not
/// begin as a trace.
Result<std::shared_ptr<ByteFile>> open_whole_trace(const std::filesystem::path& file, Bytes memory_limit);

/// open_input() for commands that show stacks: native frames get their names, with a progress bar; why some have none
/// is noted on standard error.
Result<Trace> open_input(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols);

/// The second half of it.
void name_native_frames(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

/// Adds the argument TRACE, and --max-memory.
void add_trace_options(CLI::App& command, std::filesystem::path& file, Bytes& memory_limit);

/// Adds --torch-version. `otherwise`: whose rules are replayed where the history does not tell.
void add_torch_version_option(CLI::App& command, std::string& release, std::string_view otherwise = {});

/// Adds --max-memory.
void add_memory_option(CLI::App& command, Bytes& memory_limit);

/// Adds the options that say where names of native frames come from.
void add_symbol_options(CLI::App& command, SymbolOptions& symbols);

/// The same and --skip-frame, for commands that show stacks.
void add_stack_options(CLI::App& command, SymbolOptions& symbols);

}  // namespace memreel::cli
