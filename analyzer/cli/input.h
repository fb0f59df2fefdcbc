// SPDX-License-Identifier: Apache-2.0
// How every command opens its trace, and what it always reports about it.
#pragma once

#include <filesystem>
#include <memory>
#include <set>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/streamed_trace.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/reader/trace_reader.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::cli {

/// Opens a trace or any importable file, with a progress bar; notes on standard error what the trace lacks.
/// `memory_limit`: the most memory the file may request, and the whole process take (bound_memory(), unless it was
/// called before); 0: derived from its size.
Result<Trace> open_input(const std::filesystem::path& file, Bytes memory_limit);

/// The same for a second thread, which writes nothing: note_shortcomings() is left to the first.
Result<Trace> open_beside(const std::filesystem::path& file, Bytes memory_limit);
/// Notes on standard error what the trace lacks.
void note_shortcomings(const Trace& trace, const std::filesystem::path& file);

/// open_input() for commands that show stacks: also symbolizes native frames, with a progress bar, and notes on
/// standard error why some have no name.
Result<Trace> open_input(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols);

/// open_input() by way of a trace's file, so that Trace::file_size is known: of an import, the file that
/// `memreel import` writes.
Result<Trace> open_sized_input(const std::filesystem::path& file, Bytes memory_limit);

/// The symbolization step of open_input().
void name_native_frames(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

/// Opens a trace for analysis: links its levels (analyzer/analysis/history/levels.h) so that nothing is counted twice.
/// A trace may hold both the program's requests and what their allocator requested from the driver.
Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit);

/// The same for commands that show stacks: also symbolizes native frames.
Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols);

/// The steps of open_completed() after the trace is read.
void complete_input(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols);

/// The bytes of a trace, or of the trace imported from another file, with a progress bar. Fails if they do not start
/// like a trace.
Result<std::shared_ptr<ByteFile>> open_whole_trace(const std::filesystem::path& file, Bytes memory_limit);

/// Adds the argument TRACE and the option --max-memory.
void add_trace_options(CLI::App& command, std::filesystem::path& file, Bytes& memory_limit);

/// Adds --torch-version. `otherwise`: whose rules are replayed if the history does not say.
void add_torch_version_option(CLI::App& command, std::string& release, std::string_view otherwise = {});

/// Adds --heap. `what`: what is done with that heap only, "Judge", ..., `besides`: what follows in the same sentence.
void add_heap_option(CLI::App& command, std::string& heap, const std::string& what, const std::string& besides = {});

/// The names of a trace's heaps, of whatever device.
std::set<std::string> names_of_heaps(const Tables& tables);

/// Errors: `known` lacks the heap that --heap named. An empty name: --heap was not given.
Result<void> must_have_heap(const std::set<std::string>& known, const std::string& heap);

/// The same of a trace.
Result<void> must_have_heap(const Tables& tables, const std::string& heap);

/// Fails for a recording of instants: how its memory came about, which a replay repeats, is not known.
Result<void> must_have_history(const Trace& trace, const std::filesystem::path& file);

/// With --heap, leaves only the heaps that have this name, on any device. Errors: the trace has none, or none that
/// allocates.
Result<void> leave_heap(const Tables& tables, const std::string& heap, std::vector<Prepared>& heaps);

/// Adds --max-memory.
void add_memory_option(CLI::App& command, Bytes& memory_limit);

/// Adds the options that control the symbolization of native frames.
void add_symbol_options(CLI::App& command, SymbolOptions& symbols);

/// Adds the same options and --skip-frame, for commands that show stacks.
void add_stack_options(CLI::App& command, SymbolOptions& symbols);

/// Traces with more events are streamed by `memreel replay`: an event takes about 64 bytes in memory.
inline constexpr std::uint64_t most_events_in_memory = std::uint64_t{1_GiB / 1_B} / 64;

/// What `memreel replay` replays.
struct ReplaySource {
  std::filesystem::path file;
  Bytes memory_limit;
  std::string heap;               // only heaps of this name; empty: those of the program's own requests
  bool of_pinned_memory = false;  // only these
  bool streams = false;           // even if it has room in memory
};

/// The replayed trace: held in memory, or read again for each policy.
struct ReplayInput {
  Trace trace;  // without events if streamed
  std::vector<Prepared> heaps;
  std::vector<HeapHistory> histories;
  std::uint64_t event_count = 0;
  std::unique_ptr<StreamedTrace> streamed;
};

/// Notes on standard error what the trace lacks. Errors: it can't be read, or has nothing of that to replay.
Result<ReplayInput> open_to_replay(const ReplaySource& source);

}  // namespace memreel::cli
