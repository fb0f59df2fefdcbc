#include "analyzer/cli/input.h"

#include <CLI/CLI.hpp>

#include "analyzer/cli/console.h"
#include "analyzer/report/shortcomings.h"
#include "formats/import/import.h"

namespace memreel::cli {

Result<Trace> open_input(const std::filesystem::path& file, Progress progress) {
  Result<Trace> trace = [&] {
    if (progress == Progress::hidden) return open_any(file, {});
    ProgressBar bar("reading " + file.filename().string());
    ImportOptions options;
    options.on_progress = [&](ImportProgress p) { bar.update(p.bytes_done, p.bytes_total); };
    return open_any(file, options);
  }();
  if (trace) {
    for (const std::string& line : shortcomings(*trace)) note(file.filename().string() + ": " + line);
  }
  return trace;
}

Result<Trace> open_input(const std::filesystem::path& file, const SymbolOptions& symbols) {
  Result<Trace> trace = open_input(file);
  if (trace) name_native_frames(*trace, file, symbols);
  return trace;
}

void name_native_frames(Trace& trace, const std::filesystem::path& file, const SymbolOptions& symbols) {
  ProgressBar bar("finding the names of native frames");
  const auto [stack_now, findings] =
      name_frames(trace.tables, symbols, Unnamed::module_and_offset,
                  [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  for (StackId& stack : trace.events.stack) stack = stack_now[index(stack)];
  for (const std::string& line : findings.problems) note(file.filename().string() + ": " + line);
}

void add_symbol_options(CLI::App& command, SymbolOptions& symbols) {
  command.add_option("--sysroot", symbols.sysroot,
                     "Directory with the recorded machine's files, for the names of native frames [this machine]");
  command.add_flag("--debuginfod", symbols.debuginfod,
                   "Ask the servers in DEBUGINFOD_URLS for debug information that is not found");
}

}  // namespace memreel::cli
