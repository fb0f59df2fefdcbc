// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "analyzer/cli/input.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/program.h"
#include "formats/import/import.h"
#include "formats/import/joined.h"
#include "formats/model/memory_bound.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
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
  for (const fs::path& file : arguments.files)
    if (Result<void> differ = must_differ(file, output); !differ) return fail(differ.error());
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
  if (is_standard_output(output)) return Exit::done;
  std::error_code ignored;
  const Bytes size{fs::file_size(output, ignored)};
  std::cout << printable(output.string()) << " (" << text_of(size) << ")\n";
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

}  // namespace memreel::cli
