// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include "analyzer/cli/input.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/program.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {
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
  for (const std::string& line : findings->problems) note(arguments.file.filename().string() + ": " + line);
  if (arguments.quiet) return Exit::done;
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
