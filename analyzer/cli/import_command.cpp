#include <filesystem>
#include <iostream>
#include <string>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output_file.h"
#include "formats/import/import.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/reader/trace_reader.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  fs::path file;
  Bytes memory_limit;
  fs::path output;
  std::string format;
};

// "gpt.v2.pickle.xz" becomes "gpt.v2.reel" in the current directory.
fs::path default_output(const fs::path& input) {
  fs::path name = input.filename();
  if (const std::string packed = name.extension().string(); packed == ".xz" || packed == ".gz" || packed == ".zst") {
    name = name.stem();
  }
  return name.replace_extension(".reel");
}

Exit run_import(const ImportArguments& arguments) {
  const fs::path output = arguments.output.empty() ? default_output(arguments.file) : arguments.output;
  if (Result<void> differ = must_differ(arguments.file, output); !differ) return fail(differ.error());
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(output, private_mode);
  if (!sink) return fail(sink.error());
  {
    ProgressBar bar("importing " + arguments.file.filename().string());
    ImportOptions options;
    options.format = arguments.format;
    options.memory_limit = arguments.memory_limit;
    options.on_progress = [&](ImportProgress p) { bar.update(p.bytes_done, p.bytes_total); };
    if (const Result<void> done = import_file(arguments.file, *std::move(sink), options); !done)
      return fail(done.error());
  }
  std::error_code ignored;
  const Bytes size{fs::file_size(output, ignored)};
  std::cout << printable(output.string()) << " (" << text_of(size) << ")\n";
  return Exit::done;
}

}  // namespace

void add_import_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("import", "Convert another tool's recording to a .reel trace");
  const auto arguments = std::make_shared<ImportArguments>();
  command->add_option("FILE", arguments->file, "Recording to import; may be compressed with xz, gzip or zstd")
      ->required();
  add_memory_option(*command, arguments->memory_limit);
  command->add_option("-o,--output", arguments->output, "Trace to write [FILE's name with .reel, in this directory]");
  std::string formats;
  for (const ImportFormat& format : import_formats()) {
    formats += "\n  " + std::string(format.name) + "  " + std::string(format.description);
  }
  command->add_option("--format", arguments->format, "Format of FILE [found from its content]");
  command->footer("Formats:" + formats +
                  "\n\nExamples:\n"
                  "  memreel import snapshot.pickle                 writes snapshot.reel\n"
                  "  memreel import snapshot.pickle.xz -o run7.reel");
  command->callback([arguments, &exit] { exit = run_import(*arguments); });
}

}  // namespace memreel::cli
