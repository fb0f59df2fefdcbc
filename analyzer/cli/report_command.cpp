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

std::vector<RecordedFailure> recorded_failures(const Trace& trace) {
  std::vector<RecordedFailure> failures;
  std::vector<Bytes> live(trace.tables.heaps.size());
  std::vector<Bytes> reserved(trace.tables.heaps.size());
  const EventColumns& events = trace.events;
  for (std::size_t i = 0; i < events.count(); ++i) {
    const HeapId heap = trace.tables[events.origin[i]].heap;
    Bytes& heap_live = live[index(heap)];
    Bytes& heap_reserved = reserved[index(heap)];
    switch (events.kind[i]) {
      case EventKind::alloc:
        heap_live += events.size[i];
        break;
      case EventKind::free_requested:
        if (events.allocation[i] != AllocationId::none) heap_live -= events.size[i];
        break;
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        heap_reserved += events.size[i];
        break;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        heap_reserved -= std::min(events.size[i], heap_reserved);
        break;
      case EventKind::alloc_failed:
        failures.push_back({.event = i, .heap = heap, .live = heap_live, .reserved = heap_reserved});
        break;
      default:
        break;
    }
  }
  return failures;
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
  if (!sections.any()) sections = {.live = true, .leaks = true};
  const Report report = make_report(*trace, *by, sections, *leaks);
  if (arguments.format == "json")
    print_report_json(*trace, report, arguments.options);
  else
    print_report_text(*trace, report, arguments.options);
  return Exit::done;
}

}  // namespace

Report make_report(const Trace& trace, GroupBy by, const Sections& sections, const LeakOptions& leak_options) {
  Report report{.by = by, .sections = sections, .failures = recorded_failures(trace)};
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
  return report;
}

void add_report_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("report", "Say who held the memory: at the peak, at the end, at failures; and what leaks");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("TRACE", arguments->options.file, "Trace, or any file that import reads")->required();
  command->add_option("--by", arguments->by,
                      "Group what is live by stack, line, function, module, thread, stream, pool or device; line and "
                      "function are the innermost of your own code [line]");
  command->add_option("--top", arguments->options.top, "Groups to show per table [10]");
  command->add_flag("--leaks", arguments->sections.leaks,
                    "What is kept in step after step and never let go of, and what is held for a reason");
  add_leak_options(*command, arguments->leaks);
  command->add_flag("--allocations", arguments->options.allocations, "List every live allocation with its address");
  command->add_option("--format", arguments->format, "text or json [text]");
  command->add_flag("--json", arguments->json, "The same as --format json (memreel.report/1)");
  command->footer(
      "Examples:\n"
      "  memreel report run.reel\n"
      "  memreel report run.reel --by stack --top 3\n"
      "  memreel report run.reel --leaks --suppress 'leak:my_cache'\n"
      "  memreel report snapshot.pickle --by stream --json | jq '.live_at_peak[0].groups'");
  command->callback([arguments, &exit] { exit = run_report(*arguments); });
}

}  // namespace memreel::cli
