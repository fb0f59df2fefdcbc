// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/input.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <span>
#include <system_error>

#include "analyzer/analysis/insight/suppressions.h"
#include "analyzer/cli/output.h"
#include "analyzer/describe/shortcomings.h"
#include "analyzer/fleet/inputs.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/prepare.h"
#include "formats/import/import.h"
#include "formats/model/files.h"
#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"
#include "formats/reader/trace_index.h"

namespace memreel::cli {

Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (!trace) return trace;
  skip_frames(*trace, {});
  complete_trace(*trace);
  return trace;
}

Result<Trace> open_completed(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (trace) complete_input(*trace, file, symbols);
  return trace;
}

void complete_input(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols) {
  name_native_frames(trace, file, symbols);
  complete_trace(trace);
}

namespace {

/// The error for a directory of several recordings, with suggestions.
Error several_recordings(const std::filesystem::path& directory) {
  constexpr std::size_t most_entries = 10'000;  // a moment's work
  const Result<std::optional<std::vector<std::filesystem::path>>> found = recordings_in(directory, most_entries);
  if (found && !*found)
    return {.what = "is a directory",
            .where = directory.string(),
            .remedy = "name a recording in it, or judge all of them with memreel fleet or memreel check --fleet"};
  if (!found || (*found)->empty()) return {.what = "is a directory without recordings", .where = directory.string()};
  const std::size_t count = (*found)->size();
  const std::string first = (*found)->front().string();
  if (count == 1)
    return {.what = "is a directory", .where = directory.string(), .remedy = "name the recording in it: " + first};
  return {.what = "holds " + std::to_string(count) + " recordings",
          .where = directory.string(),
          .remedy = "judge all of them with memreel fleet or memreel check --fleet, or name one, such as " + first};
}

}  // namespace

void note_shortcomings(const Trace& trace, const std::filesystem::path& file) {
  if (const std::string line = provenance(trace.header); !line.empty()) note(file.string() + ": " + line);
  for (const std::string& line : shortcomings(trace)) note(file.string() + ": " + line);
}

Result<Trace> open_beside(const std::filesystem::path& file, Bytes memory_limit) {
  if (std::error_code problem; std::filesystem::is_directory(file, problem)) return several_recordings(file);
  return open_any(file, {.memory_limit = memory_limit});
}

Result<Trace> open_input(const std::filesystem::path& file, Bytes memory_limit) {
  if (std::error_code problem; std::filesystem::is_directory(file, problem)) return several_recordings(file);
  if (!memory_bound()) bound_memory(std::span(&file, 1), memory_limit);
  Result<Trace> trace = [&] {
    ProgressBar bar("reading " + file.filename().string());
    return open_any(file, {.memory_limit = memory_limit,
                           .on_progress = [&](ImportProgress p) { bar.update(p.bytes_done, p.bytes_total); }});
  }();
  if (trace) note_shortcomings(*trace, file);
  return trace;
}

Result<Trace> open_sized_input(const std::filesystem::path& file, Bytes memory_limit) {
  const Result<std::shared_ptr<ByteFile>> bytes = open_whole_trace(file, memory_limit);
  if (!bytes) return bytes.error();
  Result<Trace> trace = load_checked(*bytes, file.string(), memory_limit);
  if (trace) note_shortcomings(*trace, file);
  return trace;
}

Result<std::shared_ptr<ByteFile>> open_whole_trace(const std::filesystem::path& file, Bytes memory_limit) {
  if (std::error_code problem; std::filesystem::is_directory(file, problem)) return several_recordings(file);
  if (!memory_bound()) bound_memory(std::span(&file, 1), memory_limit);
  ProgressBar bar("reading " + file.filename().string());
  ImportOptions options{.memory_limit = memory_limit};
  options.on_progress = [&](ImportProgress p) { bar.update(p.bytes_done, p.bytes_total); };
  Result<std::shared_ptr<ByteFile>> bytes = open_trace(file, options);
  if (!bytes) return bytes;
  if (auto reader = TraceReader::open(*bytes, file.string(), memory_limit); !reader) return std::move(reader).error();
  return bytes;
}

Result<Trace> open_input(const std::filesystem::path& file, Bytes memory_limit, const SymbolOptions& symbols) {
  Result<Trace> trace = open_input(file, memory_limit);
  if (trace) name_native_frames(*trace, file, symbols);
  return trace;
}

void name_native_frames(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols) {
  ProgressBar bar("naming native frames");
  const auto [stack_now, findings] =
      name_frames(trace.tables, symbols, Unnamed::module_and_offset,
                  [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  trace.events.renumber_stacks(stack_now);
  for (FoldedRow& row : trace.folded.rows) row.stack = stack_now[index(row.stack)];
  if (!symbols.all_frames) hide_frames(trace);
  for (const std::string& line : findings.problems) note(file.string() + ": " + line);
  for (const std::string& line : skip_frames(trace, symbols.skip_frames)) note(file.string() + ": " + line);
}

void add_trace_options(CLI::App& command, std::filesystem::path& file, Bytes& memory_limit) {
  command.add_option("TRACE", file, "Trace, or any file that import reads")->required();
  add_memory_option(command, memory_limit);
}

void add_torch_version_option(CLI::App& command, std::string& release, std::string_view otherwise) {
  command.add_option("--torch-version", release,
                     "PyTorch release whose rules are replayed, e.g. 2.12 [the one stated by the history" +
                         (otherwise.empty() ? "" : ", else " + std::string(otherwise)) + "]");
}

void add_heap_option(CLI::App& command, std::string& heap, const std::string& what, const std::string& besides) {
  command.add_option("--heap", heap, what + " only the heap with this name" + besides)->type_name("NAME");
}

std::set<std::string> names_of_heaps(const Tables& tables) {
  std::set<std::string> names;
  for (const Heap& heap : std::span(tables.heaps).subspan(1)) names.insert(tables[heap.name]);
  return names;
}

namespace {

std::string listed(const std::set<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

Result<void> must_have_heap(const std::set<std::string>& known, const std::string& heap) {
  if (heap.empty() || known.contains(heap)) return {};
  return Error{.what = "there is no heap '" + heap + "'", .where = "--heap", .remedy = "there are: " + listed(known)};
}

Result<void> must_have_history(const Trace& trace, const std::filesystem::path& file) {
  if (has_history(trace)) return {};
  return Error{.what = "nothing to replay: it holds what was live at an instant, and not how it was placed",
               .where = file.string(),
               .remedy = "record a history, from before the model is built"};
}

Result<void> must_have_heap(const Tables& tables, const std::string& heap) {
  return must_have_heap(names_of_heaps(tables), heap);
}

Result<void> leave_heap(const Tables& tables, const std::string& heap, std::vector<Prepared>& heaps) {
  if (heap.empty()) return {};
  if (const Result<void> known = must_have_heap(tables, heap); !known) return known;
  const auto name_of = [&](const Prepared& of) { return tables[tables[of.heap].name]; };
  std::set<std::string> names;
  for (const Prepared& of : heaps) names.insert(name_of(of));
  std::erase_if(heaps, [&](const Prepared& of) { return name_of(of) != heap; });
  if (!heaps.empty()) return {};
  return Error{.what = "the heap '" + heap + "' holds no allocations",
               .where = "--heap",
               .remedy = "others do: " + listed(names)};
}

void add_memory_option(CLI::App& command, Bytes& memory_limit) {
  command.add_option_function<std::string>(
      "--max-memory",
      [&memory_limit](const std::string& text) {
        const Result<Bytes> size = parse_bytes(text);
        if (!size || *size == 0_B)
          throw CLI::ValidationError("--max-memory: '" + text + "' is not a size such as 4GiB");
        memory_limit = *size;
      },
      "Memory limit, e.g. 4GiB [256 times the size of the input but at least 1GiB, at most a quarter of the "
      "machine's]");
}

void add_symbol_options(CLI::App& command, SymbolOptions& symbols) {
  command.add_option("--sysroot", symbols.sysroot,
                     "Directory with the recorded machine's files, to name native frames [/]");
  command.add_flag("--debuginfod", symbols.debuginfod,
                   "Query the servers in DEBUGINFOD_URLS for missing debug information");
}

void add_stack_options(CLI::App& command, SymbolOptions& symbols) {
  add_symbol_options(command, symbols);
  command.add_flag("--all-frames", symbols.all_frames,
                   "Show the frames of Python's interpreter, of allocators and of PyTorch's dispatcher, too");
  command
      .add_option("--skip-frame", symbols.skip_frames,
                  "Remove frames whose function or file matches PATTERN from stacks, such as your own wrappers of "
                  "an allocator; repeatable; * matches anything, ^ and $ the ends")
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

namespace {

bool is_too_large(const std::filesystem::path& file) {
  const Result<std::shared_ptr<ByteFile>> bytes = open_file(file);
  if (!bytes) return false;
  const Result<TraceIndex> index = TraceIndex::open(*bytes, file.string());
  return index && index->event_count() > most_events_in_memory;
}

}  // namespace

Result<ReplayInput> open_to_replay(const ReplaySource& source) {
  ReplayInput input;
  // A heap that is asked for by name may be one that is otherwise the others' doing.
  const auto wanted = [&](std::vector<Prepared> heaps) {
    if (source.of_pinned_memory) return only_pinned_memory(std::move(heaps));
    if (source.heap.empty()) return only_requests(std::move(heaps));
    return heaps;
  };
  if (source.streams || is_too_large(source.file)) {
    Result<std::unique_ptr<StreamedTrace>> streamed = StreamedTrace::open(source.file, source.memory_limit);
    if (!streamed) return std::move(streamed).error();
    input.trace = (*streamed)->trace();
    if (const std::string line = provenance(input.trace.header); !line.empty())
      note(source.file.string() + ": " + line);
    for (const std::string& line : shortcomings(input.trace)) note(source.file.string() + ": " + line);
    input.heaps = wanted((*streamed)->heaps());
    input.histories = (*streamed)->histories();
    input.event_count = (*streamed)->event_count();
    input.streamed = *std::move(streamed);
  } else {
    Result<Trace> trace = open_completed(source.file, source.memory_limit);
    if (!trace) return std::move(trace).error();
    input.trace = *std::move(trace);
    input.heaps = wanted(prepare(input.trace));
    input.histories = heap_histories(input.trace);
    input.event_count = input.trace.events.count();
  }
  if (!input.heaps.empty())
    if (const Result<void> left = leave_heap(input.trace.tables, source.heap, input.heaps); !left) return left.error();
  if (input.heaps.empty() && source.of_pinned_memory)
    return Error{.what = "holds no history of pinned host memory",
                 .where = source.file.string(),
                 .remedy =
                     "record it with torch.cuda.memory._record_memory_history(record_pinned_host_memory=True), "
                     "PyTorch 2.14 and newer"};
  if (input.heaps.empty()) return Error{.what = "holds no allocations to replay", .where = source.file.string()};
  if (const Result<void> known = must_have_history(input.trace, source.file); !known) return known.error();
  return input;
}

}  // namespace memreel::cli
