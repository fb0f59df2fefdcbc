// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "analyzer/cli/allocation_names.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/program.h"
#include "analyzer/difference/instant.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/insight/heap_map.h"
#include "analyzer/replay/steps.h"
#include "formats/export/export.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  fs::path file;
  Bytes memory_limit;
  fs::path output;
  std::string format;
  std::string at;
  SymbolOptions symbols;
  bool json = false;
};

/// The number of events up to an instant; nothing for the peak, which differs per heap. Steps are those of the heap
/// that held most.
Result<std::optional<std::uint64_t>> events_shown(const Trace& trace, const std::string& at) {
  if (at.empty()) return std::optional<std::uint64_t>();
  const Result<Instant> instant = parse_instant(at);
  if (!instant) return instant.error();
  const std::vector<HeapHistory> heaps = heap_histories(trace);
  if (heaps.empty() || std::holds_alternative<AtPeak>(*instant)) return std::optional<std::uint64_t>();
  const HeapHistory& largest = *std::ranges::max_element(heaps, {}, &HeapHistory::peak_live);
  const Result<std::uint64_t> events = events_at(*instant, trace, largest, find_steps(trace, largest.heap));
  if (!events) return events.error();
  return std::optional(*events);
}

Json document_of(const ExportArguments& arguments, const Trace& trace) {
  std::error_code not_a_file;
  const std::uintmax_t size = fs::file_size(arguments.output, not_a_file);
  return {{"schema", "memreel.export/1"},   {"trace", arguments.file.string()},
          {"format", arguments.format},     {"output", arguments.output.string()},
          {"events", trace.events.count()}, {"bytes", not_a_file ? Json(nullptr) : Json(size)},
          {"losses", json_of_losses(trace)}};
}

Exit run_export(const ExportArguments& arguments) {
  const Result<ExportFormat> format = find_export_format(arguments.format);
  if (!format) return fail(format.error());
  if (!arguments.at.empty() && format->scope != ExportScope::instant)
    return fail({.what = "--format " + arguments.format + " shows the whole trace, not an instant of it",
                 .remedy = "leave out --at"});
  if (arguments.json)
    if (Result<void> room = leaves_room_for_json(arguments.output); !room) return fail(room.error());
  if (Result<void> differ = must_differ(arguments.file, arguments.output); !differ) return fail(differ.error());
  SymbolOptions symbols = arguments.symbols;
  // Another tool's own format is complete: it has a filter of its own (torch/cuda/_memory_viz.py:_frame_filter).
  if (arguments.format == "torch") symbols.all_frames = true;
  const Result<Trace> trace = format->scope == ExportScope::events
                                  ? open_input(arguments.file, arguments.memory_limit, symbols)
                                  : open_completed(arguments.file, arguments.memory_limit, symbols);
  if (!trace) return fail(trace.error());
  const Result<std::optional<std::uint64_t>> events = events_shown(*trace, arguments.at);
  if (!events) return fail(events.error());
  RecordedBlocks blocks;
  if (format->scope == ExportScope::series) blocks = recorded_blocks(*trace);
  const AllocationNames names = allocation_names(*trace);
  const ExportOptions options{.events = *events, .block_sizes = blocks.sizes, .notes = names.notes()};
  const Result<void> written = write_output(
      arguments.output, [&](std::ostream& out) { return export_trace(*trace, arguments.format, options, out); });
  if (!written) return fail(written.error());
  if (arguments.json) print_json(document_of(arguments, *trace));
  return Exit::done;
}

}  // namespace

void add_export_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand(
      "export", "Write a trace for other tools: CSV, JSON lines, Perfetto, pprof, speedscope, memory_viz");
  const auto arguments = std::make_shared<ExportArguments>();
  add_trace_options(*command, arguments->file, arguments->memory_limit);
  command->add_option("-o,--output", arguments->output, "File to write [standard output]");
  std::string formats;
  for (const ExportFormat& format : export_formats()) {
    std::string name(format.name);
    name.resize(12, ' ');
    formats += "\n  " + name + std::string(format.description);
  }
  command->add_option("--format", arguments->format, "Format to write")->required();
  command->add_option("--at", arguments->at,
                      "Instant to show: peak, end, step:N, event:N, 12.5s (pprof, speedscope) [peak]");
  add_stack_options(*command, arguments->symbols);
  command->add_flag("--json", arguments->json, "With -o: one JSON document about the file (memreel.export/1)");
  command->footer("Formats:" + formats +
                  "\n\nExamples:\n"
                  "  memreel export run.reel --format csv -o run.csv\n"
                  "  memreel export run.reel --format jsonl | jq 'select(.kind == \"alloc_failed\")'\n"
                  "  memreel export run.reel --format perfetto -o run.pftrace\n"
                  "  memreel export run.reel --format pprof --at end -o run.pb.gz && pprof -http=: run.pb.gz");
  command->callback([arguments, &exit] { exit = run_export(*arguments); });
}

}  // namespace memreel::cli
