#include <filesystem>
#include <memory>
#include <string>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output_file.h"
#include "formats/export/export.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  fs::path file;
  fs::path output;
  std::string format;
  SymbolOptions symbols;
};

Exit run_export(const ExportArguments& arguments) {
  const Result<Trace> trace = open_input(arguments.file, arguments.symbols);
  if (!trace) return fail(trace.error());
  const Result<void> written =
      write_output(arguments.output, [&](std::ostream& out) { return export_trace(*trace, arguments.format, out); });
  return written ? Exit::done : fail(written.error());
}

}  // namespace

void add_export_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("export", "Write every event of a trace for another tool");
  const auto arguments = std::make_shared<ExportArguments>();
  command->add_option("TRACE", arguments->file, "Trace, or any file that import reads")->required();
  command->add_option("-o,--output", arguments->output, "File to write [standard output]");
  std::string formats;
  for (const ExportFormat& format : export_formats()) {
    formats += "\n  " + std::string(format.name) + "  " + std::string(format.description);
  }
  command->add_option("--format", arguments->format, "Format to write")->required();
  add_symbol_options(*command, arguments->symbols);
  command->footer("Formats:" + formats +
                  "\n\nExamples:\n"
                  "  memreel export run.reel --format csv -o run.csv\n"
                  "  memreel export run.reel --format jsonl | jq 'select(.kind == \"alloc_failed\")'");
  command->callback([arguments, &exit] { exit = run_export(*arguments); });
}

}  // namespace memreel::cli
