#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/report.h"
#include "analyzer/cli/report_leaks.h"

namespace memreel::cli {
namespace {

struct ReportArguments {
  ReportOptions options;
  std::string by = "line";
  std::string format = "text";
  bool json = false;
  Sections sections;
  LeakArguments leaks;
};

LiveView live_view(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events,
                   GroupBy by) {
  LiveView view{.events = events, .groups = live_groups(trace, lives, heap, events, by)};
  for (const LiveGroup& group : view.groups) {
    view.bytes += group.bytes;
    view.count += group.count;
  }
  return view;
}

Exit run_report(ReportArguments arguments) {
  if (arguments.json) arguments.format = "json";
  if (arguments.format != "text" && arguments.format != "json") {
    return fail({.what = "there is no report format '" + arguments.format + "'",
                 .where = "--format",
                 .remedy = "known: text, json"});
  }
  const std::optional<GroupBy> by = group_by_name(arguments.by);
  if (!by) {
    std::string known;
    for (const std::string_view name : group_by_names()) known += (known.empty() ? "" : ", ") + std::string(name);
    return fail({.what = "can't group by '" + arguments.by + "'", .where = "--by", .remedy = "known: " + known});
  }
  const Result<LeakOptions> leaks = leak_options(arguments.leaks);
  if (!leaks) return fail(leaks.error());
  const Result<Trace> trace = open_input(arguments.options.file);
  if (!trace) return fail(trace.error());
  Sections sections = arguments.sections;
  if (!sections.any())
    sections = {.live = true, .leaks = true, .fragmentation = arguments.format != "text", .ooms = true};
  const Report report = make_report(*trace, *by, sections, *leaks);
  if (arguments.format == "json")
    print_report_json(*trace, report, arguments.options);
  else
    print_report_text(*trace, report, arguments.options);
  return Exit::done;
}

}  // namespace

Report make_report(const Trace& trace, GroupBy by, const Sections& sections, const LeakOptions& leak_options) {
  Report report{.by = by, .sections = sections};
  // Other allocators have no such summary, which is no error of the report.
  if (Result<std::vector<MemorySummary>> summaries = memory_summaries(trace)) report.summaries = *std::move(summaries);
  const std::vector<Lifetime> lives = lifetimes(trace);
  for (const HeapHistory& history : heap_histories(trace)) {
    const auto summary = std::find_if(report.summaries.begin(), report.summaries.end(),
                                      [&](const MemorySummary& s) { return s.heap == history.heap; });
    report.heaps.push_back({.history = history, .summary = summary == report.summaries.end() ? nullptr : &*summary});
    if (!sections.live) continue;
    const std::uint64_t peak = history.allocations == 0 ? 0 : history.peak_live_event + 1;
    report.heaps.back().at_peak = live_view(trace, lives, history.heap, peak, by);
    report.heaps.back().at_end = live_view(trace, lives, history.heap, trace.events.count(), by);
  }
  if (sections.leaks) report.leaks = find_leaks(trace, leak_options);
  if (!sections.fragmentation && !sections.ooms) return report;
  const RecordedBlocks blocks = recorded_blocks(trace);
  report.remedies = replay_remedies(trace);
  if (sections.fragmentation) report.fragmentation = find_fragmentation(trace, blocks);
  if (sections.ooms) report.ooms = judge_failures(trace, blocks, report.remedies);
  return report;
}

void add_report_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("report", "Say who held the memory, what leaks, what pins the fragments and why it ran out");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("TRACE", arguments->options.file, "Trace, or any file that import reads")->required();
  command->add_option("--by", arguments->by,
                      "Group what is live by stack, line, function, module, thread, stream, pool or device; line and "
                      "function are the innermost of your own code [line]");
  command->add_option("--top", arguments->options.top, "Groups to show per table [10]");
  command->add_flag("--leaks", arguments->sections.leaks,
                    "What is kept in step after step and never let go of, and what is held for a reason");
  add_leak_options(*command, arguments->leaks);
  command->add_flag("--fragmentation", arguments->sections.fragmentation,
                    "What pins free memory, lies on the wrong stream or is lost to rounding, and what gives it back");
  command->add_flag("--oom", arguments->sections.ooms,
                    "Why each failed request failed, and with which settings it would not have");
  command->add_flag("--allocations", arguments->options.allocations, "List every live allocation with its address");
  command->add_option("--format", arguments->format, "text or json [text]");
  command->add_flag("--json", arguments->json, "The same as --format json (memreel.report/1)");
  command->footer(
      "Examples:\n"
      "  memreel report run.reel\n"
      "  memreel report run.reel --by stack --top 3\n"
      "  memreel report run.reel --leaks --suppress 'leak:my_cache'\n"
      "  memreel report run.reel --fragmentation\n"
      "  memreel report run.reel --oom --json | jq '.ooms[0].survivors'\n"
      "  memreel report snapshot.pickle --by stream --json | jq '.live_at_peak[0].groups'");
  command->callback([arguments, &exit] { exit = run_report(*arguments); });
}

}  // namespace memreel::cli
