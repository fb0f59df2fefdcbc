#include "analyzer/cli/input.h"

#include <CLI/CLI.hpp>

#include "analyzer/cli/console.h"
#include "formats/import/import.h"
#include "formats/model/quantity.h"

namespace memreel::cli {

Result<Trace> open_input(const std::filesystem::path& file) {
  Result<Trace> trace = [&] {
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
  if (!trace) return trace;
  ProgressBar bar("finding the names of native frames");
  const auto [stack_now, findings] =
      name_frames(trace->tables, symbols, Unnamed::module_and_offset,
                  [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  for (StackId& stack : trace->events.stack) stack = stack_now[index(stack)];
  for (const std::string& line : findings.problems) note(file.filename().string() + ": " + line);
  return trace;
}

void add_symbol_options(CLI::App& command, SymbolOptions& symbols) {
  command.add_option("--sysroot", symbols.sysroot,
                     "Directory with the recorded machine's files, for the names of native frames [this machine]");
  command.add_flag("--debuginfod", symbols.debuginfod,
                   "Ask the servers in DEBUGINFOD_URLS for debug information that is not found");
}

std::vector<std::string> shortcomings(const Trace& trace) {
  std::vector<std::string> lines;
  const auto say = [&](std::uint64_t count, const std::string& one, const std::string& many) {
    if (count != 0) lines.push_back(text_of(count) + " " + (count == 1 ? one : many));
  };
  const Losses& losses = trace.losses;
  const ReadReport& read = trace.read;
  if (losses.history_overflowed) {
    lines.emplace_back(
        "the recorder's ring overflowed: the oldest events are missing (record with a larger max_entries)");
  }
  if (losses.began_late) {
    lines.push_back("the recording began late: " + text_of(losses.preexisting_allocations) +
                    " allocations were made before it, their stacks are not known");
  }
  say(losses.ring_full, "event was dropped because the recorder's ring was full",
      "events were dropped because the recorder's ring was full");
  say(losses.stack_table_full, "event lost its stack", "events lost their stacks");
  say(losses.hook_refused, "call could not be observed", "calls could not be observed");
  say(losses.unknown_actions, "record is of a kind that the importer does not know",
      "records are of kinds that the importer does not know");
  say(losses.unmatched_frees, "free is of an allocation that was never recorded",
      "frees are of allocations that were never recorded");
  if (read.damaged_packets != 0 || read.damaged_bytes != 0) {
    lines.push_back("damaged: " + text_of(read.damaged_packets) + " packets, " + text_of(Bytes{read.damaged_bytes}) +
                    " skipped");
  }
  if (read.truncated_bytes != 0) {
    lines.push_back("incomplete: the last " + text_of(Bytes{read.truncated_bytes}) + " are the beginning of a packet");
  }
  say(read.unknown_packets, "packet is of a kind newer than this version",
      "packets are of kinds newer than this version");
  say(read.unknown_events, "event is of a kind newer than this version", "events are of kinds newer than this version");
  if (!read.has_footer && trace.file_size != 0_B) {
    lines.emplace_back("no footer: the recorder was killed or is still writing");
  }
  return lines;
}

}  // namespace memreel::cli
