// SPDX-License-Identifier: Apache-2.0
// `memreel import`, `export` and `symbols`: make files of files.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <variant>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/difference/instant.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "analyzer/cli/allocation_names.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/replay/steps.h"
#include "analyzer/symbols/symbols.h"
#include "formats/export/export.h"
#include "formats/import/import.h"
#include "formats/model/files.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/reader/trace_reader.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  std::vector<fs::path> files;
  Bytes memory_limit;
  fs::path output, profile;
  std::string format;
  bool json = false;
};

// "gpt.v2.pickle.xz" becomes "gpt.v2.reel" in the current directory.
fs::path default_output(const fs::path& input) {
  fs::path name = input.filename();
  if (const std::string packed = name.extension().string(); packed == ".xz" || packed == ".gz" || packed == ".zst") {
    name = name.stem();
  }
  return name.replace_extension(".reel");
}

/// The document describes the written trace, so the trace is read back.
Result<Json> document_of(const ImportArguments& arguments, const fs::path& output) {
  const Result<std::shared_ptr<ByteFile>> file = open_file(output);
  if (!file) return file.error();
  Result<TraceReader> reader = TraceReader::open(*file, output.string());
  if (!reader) return std::move(reader).error();
  EventBatch batch;
  std::uint64_t events = 0;
  for (Result<bool> more = reader->next(batch); !more || *more; more = reader->next(batch)) {
    if (!more) return std::move(more).error();
    events += batch.events.count();
  }
  return Json{{"schema", "memreel.import/1"},
              {"input", arguments.files.front().string()},
              {"output", output.string()},
              {"source", reader->header().source},
              {"events", events},
              {"bytes", (*file)->size()},
              {"losses", json_of_losses(reader->header(), reader->losses(), reader->report())}};
}

Result<void> must_be_readable_again(const fs::path& output) {
  if (std::error_code ignored; !fs::exists(output, ignored) || fs::is_regular_file(output, ignored)) return {};
  return Error{.what = "not a regular file, and --json reads the trace again",
               .where = output.string(),
               .remedy = "name another file, or leave out --json"};
}

/// A recording with the profile that its program made meanwhile.
Result<void> import_joined(const ImportArguments& arguments, std::unique_ptr<ByteSink> sink) {
  const Result<fs::path> file = profile_in(arguments.profile);
  if (!file) return file.error();
  ImportOptions options;
  options.memory_limit = arguments.memory_limit;
  const Result<Trace> recording = open_any(arguments.files.front(), options);
  if (!recording) return recording.error();
  const Result<Trace> profile = open_any(*file, options);
  if (!profile) return profile.error();
  return join(*recording, *profile, std::move(sink), options.writer);
}

Exit run_import(const ImportArguments& arguments) {
  const fs::path& first = arguments.files.front();
  const bool is_series = arguments.files.size() > 1;
  if (is_series && !arguments.format.empty() && arguments.format != "torch.snapshot")
    return fail({.what = "several files are a series of PyTorch's snapshots, not of " + arguments.format,
                 .where = "--format",
                 .remedy = "import the others one by one"});
  if (is_series && !arguments.profile.empty())
    return fail({.what = "a profile is of one recording", .where = "--profile", .remedy = "name one file"});
  fs::path output = arguments.output.empty() ? default_output(first) : arguments.output;
  if (arguments.output.empty() && !arguments.profile.empty()) output.replace_extension(".joined.reel");
  std::vector<fs::path> inputs = arguments.files;
  if (!arguments.profile.empty()) {
    const Result<fs::path> profile = profile_in(arguments.profile);
    if (!profile) return fail(profile.error());
    inputs.push_back(*profile);
  }
  if (Result<void> differ = must_differ(inputs, std::array{output}); !differ) return fail(differ.error());
  if (arguments.json) {
    if (Result<void> room = leaves_room_for_json(output); !room) return fail(room.error());
    if (Result<void> readable = must_be_readable_again(output); !readable) return fail(readable.error());
  }
  bound_memory(arguments.files, arguments.memory_limit);
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(output, private_mode);
  if (!sink) return fail(sink.error());
  {
    ProgressBar bar("importing " + first.filename().string());
    ImportOptions options;
    options.format = arguments.format;
    options.memory_limit = arguments.memory_limit;
    options.on_progress = [&](ImportProgress p) { bar.update(p.bytes_done, p.bytes_total); };
    const Result<void> done = !arguments.profile.empty() ? import_joined(arguments, *std::move(sink))
                              : is_series                ? import_series(arguments.files, *std::move(sink), options)
                                                         : import_file(first, *std::move(sink), options);
    if (!done) return fail(done.error());
  }
  if (arguments.json) {
    const Result<Json> document = document_of(arguments, output);
    if (!document) return fail(document.error());
    print_json(*document);
    return Exit::done;
  }
  std::cout << written_text(output);
  return Exit::done;
}

}  // namespace

void add_import_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("import", "Convert another tool's recording to a .reel trace");
  const auto arguments = std::make_shared<ImportArguments>();
  command
      ->add_option("FILE", arguments->files,
                   "Recording to import; may be compressed with xz, gzip or zstd. Several are a series of PyTorch's "
                   "snapshots without traces, in order of time")
      ->required();
  add_memory_option(*command, arguments->memory_limit);
  command->add_option("-o,--output", arguments->output, "Trace to write [FILE's name with .reel, in this directory]");
  std::string formats;
  for (const ImportFormat& format : import_formats()) {
    formats += "\n  " + std::string(format.name) + "  " + std::string(format.description);
  }
  command->add_option("--format", arguments->format, "Format of FILE [detected from its content]");
  command->add_option(
      "--profile", arguments->profile,
      "FILE is a recording: writes one trace of it and of this profile, which its program made of itself "
      "meanwhile (jax.profiler.trace(): the file, or the directory it was given)");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.import/1) instead of text");
  command->footer("Formats:" + formats +
                  "\n\nExamples:\n"
                  "  memreel import snapshot.pickle                 writes snapshot.reel\n"
                  "  memreel import snapshot.pickle.xz -o run7.reel\n"
                  "  memreel import snap-*.pickle -o series.reel    include_traces=False: each an instant\n"
                  "  memreel import run.reel --profile /tmp/profile writes run.joined.reel");
  command->callback([arguments, &exit] { exit = run_import(*arguments); });
}

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
  Result<Instant> instant = parse_instant(at);
  if (!instant) {
    instant.error().where = "--at";
    return std::move(instant).error();
  }
  const std::vector<HeapHistory> heaps = heap_histories(trace);
  if (heaps.empty() || std::holds_alternative<AtPeak>(*instant)) return std::optional<std::uint64_t>();
  const HeapHistory& largest = *std::ranges::max_element(heaps, {}, &HeapHistory::peak_live);
  const Analysis analysis(trace);
  const Result<std::uint64_t> events = events_at(*instant, analysis, largest, analysis.steps(largest.heap));
  if (!events) return Error{.what = events.error().what, .where = "--at", .remedy = events.error().remedy};
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
  command->add_option(
      "--at", arguments->at,
      "Instant to show: peak, end, step:N, event:N, phase:forward, range:NAME (its peak), 12.5s (pprof, "
      "speedscope) [peak]");
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

namespace {

struct SymbolsArguments {
  std::filesystem::path file;
  std::filesystem::path output;
  SymbolOptions symbols;
  bool quiet = false;
  bool json = false;
};

Exit run_symbols(const SymbolsArguments& arguments) {
  const std::filesystem::path& output = arguments.output.empty() ? arguments.file : arguments.output;
  if (arguments.json)
    if (Result<void> room = leaves_room_for_json(output); !room) return fail(room.error());
  Result<SymbolFindings> findings = [&] {
    ProgressBar bar("naming native frames");
    return bundle_symbols(arguments.file, output, arguments.symbols,
                          [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  }();
  if (!findings) return fail(findings.error());
  if (arguments.json) {
    print_json({{"schema", "memreel.symbols/1"},
                {"trace", arguments.file.string()},
                {"output", output.string()},
                {"native_frames", findings->native_frames},
                {"named_frames", findings->named},
                {"problems", findings->problems}});
    return Exit::done;
  }
  for (const std::string& line : findings->problems) note(arguments.file.string() + ": " + line);
  if (arguments.quiet || is_standard_output(output)) return Exit::done;
  std::cout << printable(output.string()) << ": named " << text_of(findings->named) << " of "
            << text_of(findings->native_frames) << " native frames\n";
  return Exit::done;
}

}  // namespace

void add_symbols_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("symbols", "Write function names into a trace, to read it on another machine");
  const auto arguments = std::make_shared<SymbolsArguments>();
  command->add_option("TRACE", arguments->file, "Trace (.reel)")->required();
  command->add_option("-o,--output", arguments->output, "Trace to write [TRACE itself]");
  add_symbol_options(*command, arguments->symbols);
  command->add_flag("-q,--quiet", arguments->quiet, "Print problems only");
  command->add_flag("--json", arguments->json, "One JSON document (memreel.symbols/1) instead of text");
  command->footer(
      "Examples:\n"
      "  memreel symbols run.reel\n"
      "  memreel symbols run.reel --sysroot /mnt/node17 -o named.reel");
  command->callback([arguments, &exit] { exit = run_symbols(*arguments); });
}

}  // namespace memreel::cli
