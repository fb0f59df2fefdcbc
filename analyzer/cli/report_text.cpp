// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <span>

#include "analyzer/analysis/history/device_tree.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/report.h"
#include "analyzer/cli/report_leaks.h"
#include "analyzer/describe/fields.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/shortcomings.h"
#include "analyzer/describe/text_table.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel::cli {
std::string sharing_words(const Tables& tables, const PrivatePool& pool) {
  if (pool.uses.size() < 2 || pool.shared() == 0_B) return {};
  return pool_label(tables, pool.pool) + ": its " + text_of(std::uint64_t{pool.uses.size()}) +
         " captures share memory; with a pool each they would need " + text_of(pool.shared()) + " more";
}

void print_pools_text(const Trace& trace, const HeapReport& heap, const ReportOptions& options) {
  if (heap.pools.empty()) return;
  const bool graphs = std::ranges::any_of(heap.pools, &PrivatePool::has_captures);
  std::cout << '\n' << bold(graphs ? "private pools of CUDA graphs" : "private pools") << "\n\n";
  std::vector<TableColumn> columns;
  for_each_column<PrivatePool>([&](const ResultField<PrivatePool>& field) {
    columns.push_back({std::string(field.title), field.is_number() ? Align::right : Align::left});
  });
  TextTable table(columns);
  const std::size_t shown = std::min(options.top, heap.pools.size());
  for (const PrivatePool& pool : heap.pools.first(shown)) table.add_row(cells_of(trace.tables, pool));
  table.print(std::cout, 2);
  if (shown < heap.pools.size())
    std::cout << "  ... and " << text_of(std::uint64_t{heap.pools.size() - shown}) << " more (--top)\n";
  for (const PrivatePool& pool : heap.pools.first(shown))
    if (const std::string words = sharing_words(trace.tables, pool); !words.empty())
      std::cout << wrapped("pool " + words, 2);
}

void print_holders_text(const Trace& trace, const ReportOptions& options) {
  const PythonHolders& found = trace.python_holders;
  constexpr std::string_view title = "kept by";
  std::cout << bold(std::string(title))
            << wrapped(std::string(title.size(), ' ') + " Python variables; walked " + walk_words(found), 0)
                   .substr(title.size())
            << '\n';
  std::vector<TableColumn> columns;
  for_each_column<PythonHolder>([&](const ResultField<PythonHolder>& field) {
    columns.push_back({std::string(field.title), field.is_number() ? Align::right : Align::left,
                       field.is_number() ? Fit::wrapped : Fit::clipped});
  });
  TextTable table(columns);
  const std::size_t shown = std::min(options.top, found.rows.size());
  for (const PythonHolder& row : std::span(found.rows).first(shown)) table.add_row(cells_of(trace.tables, row));
  if (shown > 0) table.print(std::cout, 2);
  if (shown < found.rows.size())
    std::cout << "  ... and " << text_of(std::uint64_t{found.rows.size() - shown}) << " more (--top)\n";
}

void print_pool_errors_text(const Trace& trace, const Report& report, const ReportOptions& options) {
  const std::vector<PoolError>& errors = report.analysis->pool_errors();
  std::cout << red("pool errors") << "\n\n";
  const std::size_t shown = std::min(options.top, errors.size());
  for (const PoolError& error : std::span(errors).first(shown))
    std::cout << wrapped(std::string(name_of(error.kind)) + " in " + heap_title(trace.tables, error.heap) +
                             (error.count > 1 ? ", " + text_of(error.count) + " times" : "") + ": " +
                             evidence_of(trace.tables, error),
                         2);
  if (shown < errors.size())
    std::cout << "  ... and " << text_of(std::uint64_t{errors.size() - shown}) << " more (--top)\n";
}

void print_tree_text(const Trace& trace, const Report& report) {
  const Tables& tables = trace.tables;
  std::vector<DeviceMemory> devices(report.analysis->devices().begin(), report.analysis->devices().end());
  std::ranges::stable_partition(devices, [](const DeviceMemory& device) { return device.device >= 0; });
  for (const DeviceMemory& device : devices) {
    const DeviceInstant& peak = device.peak_held;
    if (device.heaps.empty() || (peak.held == 0_B && !tells_live_memory(trace))) continue;
    std::cout << '\n'
              << bold(device.device < 0 ? "host memory" : "device " + std::to_string(device.device)) << ": "
              << text_of(peak.held) << " held at its peak, " << text_of(peak.live) << " live (event "
              << text_of(std::uint64_t{peak.event}) << ")\n";
    if (device.device >= 0 && !device.has_driver)
      std::cout << "  calls of the driver are not recorded: this is what the pools hold\n";
    std::cout << '\n';
    TextTable table({{"peak", Align::right},
                     {"device's peak", Align::right},
                     {"of parent", Align::right},
                     {"itself", Align::right},
                     {"live", Align::right},
                     {"heap"}});
    for (const DeviceTreeRow& row : tree_rows(device))
      table.add_row({text_of(row.peak), text_of(row.whole),
                     row.around > 0_B ? text_of_share(share_of(row.whole, row.around)) : "", text_of(row.itself),
                     row.node > TreeNode::part ? "" : text_of(row.live),
                     std::string(2 * std::size_t{row.depth}, ' ') + name_of(tables, row)});
    table.print(std::cout, 2);
    if (const auto& samples = device.samples)
      std::cout << wrapped("in use by samples around the peak: " +
                               text_of(peak.held + samples->pools + samples->graphs + samples->of_nobody) + " of " +
                               text_of(samples->total),
                           2);
  }
}

namespace {

std::string of_bytes(std::uint64_t value) { return text_of(Bytes{value}); }
std::string of_count(std::uint64_t value) { return text_of(value); }

void add_statistic(TextTable& table, const std::string& name, const PoolStatistics& statistics,
                   std::string (*text)(std::uint64_t)) {
  const auto add = [&](const std::string& label, const Statistic& s) {
    table.add_row({label, text(s.current), text(s.peak), text(s.allocated), text(s.freed)});
  };
  add(name, statistics.all);
  add("  large pool", statistics.large);
  add("  small pool", statistics.small);
}

// Follows the layout of torch.cuda.memory_summary(), which PyTorch users know.
void print_summary(const MemorySummary& summary) {
  std::cout << "  out-of-memory errors: " << text_of(summary.ooms)
            << "     retries after emptying the cache: " << text_of(summary.alloc_retries) << "\n";
  if (!summary.exact)
    std::cout << "  estimated: the history began late, or does not replay exactly (memreel verify says which)\n";
  std::cout << '\n';
  TextTable table({{"metric"},
                   {"current", Align::right},
                   {"peak", Align::right},
                   {"total allocated", Align::right},
                   {"total freed", Align::right}});
  add_statistic(table, "allocated", summary.allocated_bytes, of_bytes);
  add_statistic(table, "active", summary.active_bytes, of_bytes);
  add_statistic(table, "requested", summary.requested_bytes, of_bytes);
  add_statistic(table, "reserved", summary.reserved_bytes, of_bytes);
  add_statistic(table, "inactive split", summary.inactive_split_bytes, of_bytes);
  table.add_rule();
  add_statistic(table, "allocations", summary.allocations, of_count);
  add_statistic(table, "active allocations", summary.active, of_count);
  add_statistic(table, "segments", summary.segments, of_count);
  add_statistic(table, "inactive split blocks", summary.inactive_split, of_count);
  table.print(std::cout, 2);
}

void print_allocations(const Trace& trace, const LiveGroup& group) {
  for (const AllocationId id : group.allocations) {
    const Event event = trace.events[trace.events.begin_of(id)];
    std::cout << "        " << hexadecimal(event.address.value) << "  " << text_of(event.size) << '\n';
  }
}

void print_name(const std::string& name) {
  std::cout << "      " << clipped_middle(name, terminal_width() - 6) << '\n';
}

/// Nothing in a recording of instants is from before it, although its stacks end so.
void print_stack(const Trace& trace, StackId stack) {
  std::vector<FrameText> frames = frames_of(trace.tables, stack);
  if (is_preexisting(trace.tables, stack) && !has_history(trace)) frames.pop_back();
  if (frames.empty()) print_name(std::string(no_stack_label));
  for (const FrameText& frame : frames) print_name(place_label(frame));
}

/// Memory by category; prints nothing if no category is known.
void print_categories(const LiveView& view) {
  if (!says_something(view.categories)) return;
  TextTable table({{"category"},
                   {"bytes", Align::right},
                   {"share", Align::right},
                   {"of it", Align::right},
                   {"largest place", Align::left, Fit::clipped}});
  for (const CategoryShare& share : view.categories) {
    const double part = static_cast<double>(share.bytes.count) / static_cast<double>(view.bytes.count);
    table.add_row({std::string(words_of(share.category)), text_of(share.bytes), text_of_share(part),
                   text_of_share(share.largest()), share.holders.front().label});
  }
  table.print(std::cout, 2);
  std::cout << '\n';
}

void print_live(const Trace& trace, const LiveView& view, const std::string& when, GroupBy by,
                const ReportOptions& options) {
  std::cout << '\n'
            << bold("live " + when) << ": " << text_of(view.bytes) << " in " << counted(view.count, "allocation")
            << (view.groups.empty() ? "\n" : ", by " + std::string(name_of(by)) + "\n\n");
  if (view.groups.empty()) return;
  print_categories(view);
  const std::size_t shown = std::min(options.top, view.groups.size());
  const auto share = [&](Bytes bytes) {
    return text_of_share(view.bytes == 0_B ? 0
                                           : static_cast<double>(bytes.count) / static_cast<double>(view.bytes.count));
  };
  if (by == GroupBy::stack || options.allocations) {
    for (std::size_t g = 0; g < shown; ++g) {
      const LiveGroup& group = view.groups[g];
      std::cout << "  " << text_of(group.bytes) << "  " << share(group.bytes) << "  in " << text_of(group.count)
                << '\n';
      if (by != GroupBy::stack)
        print_name(group.label);
      else
        print_stack(trace, group.stack);
      if (options.allocations) print_allocations(trace, group);
    }
  } else {
    TextTable table({{"bytes", Align::right},
                     {"share", Align::right},
                     {"count", Align::right},
                     {std::string(name_of(by)), Align::left, Fit::clipped}});
    for (std::size_t g = 0; g < shown; ++g) {
      const LiveGroup& group = view.groups[g];
      table.add_row({text_of(group.bytes), share(group.bytes), text_of(group.count), group.label});
    }
    table.print(std::cout, 2);
  }
  if (shown < view.groups.size()) {
    std::cout << "  ... and " << text_of(std::uint64_t{view.groups.size() - shown}) << " more (--top)\n";
  }
}

/// The highest peaks of phases and ranges; nested ranges are listed below their parents.
void print_spans(const HeapReport& heap, const ReportOptions& options) {
  TextTable table({{"peak live", Align::right}, {"rise", Align::right}, {"times", Align::right}, {"phase or range"}});
  if (heap.phases.size() > 1)
    for (const PhasePeak& at : heap.phases)
      table.add_row({text_of(at.peak.live), "", "", "phase " + std::string(name_of(at.phase))});
  std::size_t left = heap.ranges.size();
  for (const RangePeak& range : std::span(heap.ranges).first(std::min(options.top, heap.ranges.size()))) {
    table.add_row({text_of(range.peak.live), text_of(range.rise), text_of(range.count),
                   std::string(std::min<std::size_t>(2 * range.depth, 24), ' ') + range.name});
    --left;
  }
  if (table.empty()) return;
  std::cout << '\n' << bold("peaks of phases and ranges") << '\n' << '\n';
  table.print(std::cout, 2);
  if (left > 0) std::cout << "  ... and " << text_of(std::uint64_t{left}) << " more ranges (--top)\n";
}

/// What each tag or thread held at its own peak.
void print_group_peaks(const HeapReport& heap, GroupBy by, const ReportOptions& options) {
  if (heap.groups.empty()) return;
  std::cout << '\n' << bold("peak of each " + std::string(name_of(by)) + ", whenever it was") << "\n\n";
  TextTable table({{"peak live", Align::right},
                   {"allocations", Align::right},
                   {std::string(name_of(by)), Align::left, Fit::clipped}});
  const std::size_t shown = std::min(options.top, heap.groups.size());
  for (const GroupPeak& group : std::span(heap.groups).first(shown))
    table.add_row({text_of(group.peak), text_of(group.count), group.label});
  table.print(std::cout, 2);
  if (shown < heap.groups.size())
    std::cout << "  ... and " << text_of(std::uint64_t{heap.groups.size() - shown}) << " more (--top)\n";
}

/// Topics in the first column, text in the second.
void print_verdict(std::span<const VerdictLine> lines) {
  constexpr std::size_t topics = std::string_view("fragmented").size();
  for (const VerdictLine& line : lines) {
    const std::string topic = line.alarm ? red(line.topic) : bold(line.topic);
    const std::string text = wrapped(line.text, topics + 2);
    std::cout << topic << std::string(topics - line.topic.size(), ' ') << text.substr(topics);
  }
}

/// Whether the same allocations are live.
bool are_same(const LiveView& a, const LiveView& b) {
  return a.bytes == b.bytes && a.count == b.count &&
         std::ranges::equal(a.groups, b.groups, {}, &LiveGroup::allocations, &LiveGroup::allocations);
}

/// A heap whose allocations were not recorded.
void print_unrecorded(const Trace& trace, const HeapReport& heap) {
  const HeapHistory& history = heap.history;
  const std::string title = heap_title(trace.tables, history.heap);
  std::string text = ": ";
  if (history.peak_reserved > 0_B)
    text +=
        "peak reserved " + text_of(history.peak_reserved) + " (event " + text_of(history.peak_reserved_event) + "), ";
  text += "what was live is not known";
  std::cout << bold(title) << wrapped(std::string(title.size(), ' ') + text, 0).substr(title.size());
}

void print_heap(const Trace& trace, const Report& report, const HeapReport& heap, const ReportOptions& options) {
  if (!tells_live_memory(trace)) return print_unrecorded(trace, heap);
  const HeapHistory& history = heap.history;
  const bool is_instant = report.verdict.is_instant;
  const auto at = [&](std::uint64_t event) { return is_instant ? "" : " (event " + text_of(event) + ")"; };
  std::cout << bold(heap_title(trace.tables, history.heap)) << (is_instant ? ": live " : ": peak live ")
            << text_of(history.peak_live) << at(history.peak_live_event);
  if (const Bytes older = folded_peak(trace.folded, history.heap); older > history.peak_live)
    std::cout << ",\n  at least " << text_of(older) << " before the events that are kept";
  if (history.peak_reserved > 0_B)  // else the trace has no segments
    std::cout << (is_instant ? ", reserved " : ",\n  peak reserved ") << text_of(history.peak_reserved)
              << at(history.peak_reserved_event);
  std::cout << '\n';
  if (const std::string words = part_words(report, heap); !words.empty()) std::cout << wrapped(words, 2);
  if (options.summary) std::cout << '\n';
  if (options.summary && heap.summary != nullptr) {
    print_summary(*heap.summary);
    std::cout << '\n';
  }
  if (heap.at_instant) {
    print_live(trace, *heap.at_instant, text_of(*report.instant), report.by, options);
    return;
  }
  const bool ends_at_peak = are_same(heap.at_peak, heap.at_end);
  print_live(trace, heap.at_peak,
             is_instant     ? "at that instant"
             : ends_at_peak ? "at the peak, and so to the end"
                            : "at the peak",
             report.by, options);
  print_group_peaks(heap, report.by, options);
  print_spans(heap, options);
  print_pools_text(trace, heap, options);
  if (!ends_at_peak) print_live(trace, heap.at_end, "at the end", report.by, options);
}

/// A heap that is not shown in full, in a line.
void print_briefly(const Trace& trace, const Report& report, const HeapReport& heap, const std::string& option) {
  const std::string title = heap_title(trace.tables, heap.history.heap);
  std::cout << bold(title)
            << wrapped(
                   std::string(title.size(), ' ') + ": " + brief_words(report, heap) + "; " + option + " shows more", 0)
                   .substr(title.size());
}

/// The option that shows a heap in full; empty for what is: of several devices, one and the host, but for what is
/// minor.
std::string option_for(const Trace& trace, const Report& report, const HeapReport& heap, const ReportOptions& options) {
  const Heap& of = trace.tables[heap.history.heap];
  const bool is_on_device =
      options.device ? of.device == *options.device
                     : of.device < 0 || !report.verdict.decides || of.device == report.verdict.decides->device;
  if (!is_on_device) return "--device " + std::to_string(of.device);
  if (!options.heap.empty() || !report.is_minor(heap)) return {};
  return "--heap " + trace.tables[of.name];
}

}  // namespace

void print_first_lines(const Trace& trace, const Report& report) {
  if (const std::string line = provenance(trace.header); !line.empty()) std::cout << line << "\n\n";
  print_verdict(report.first_lines.empty() ? lines_of(report.verdict) : report.first_lines);
  std::cout.flush();
}

void print_report_text(const Trace& trace, const Report& report, const ReportOptions& options) {
  if (report.sections.live) {  // each other section prints its own
    if (report.first_lines.empty()) {
      print_first_lines(trace, report);
    } else {
      std::vector<VerdictLine> lines = lines_of(report.verdict);
      std::erase_if(lines, [&](const VerdictLine& line) {
        return std::ranges::find(report.first_lines, line.topic, &VerdictLine::topic) != report.first_lines.end();
      });
      print_verdict(lines);
    }
  }
  bool first = !report.sections.live;
  const auto separate = [&] {
    if (!std::exchange(first, false)) std::cout << '\n';
  };
  if (options.tree) print_tree_text(trace, report);
  if (report.sections.live && !options.tree)
    for (const HeapReport* const heap : report.by_importance())
      if (option_for(trace, report, *heap, options).empty()) {
        separate();
        print_heap(trace, report, *heap, options);
      }
  if (report.sections.live && !report.instant && !options.tree)
    for (const HeapReport* const heap : report.by_importance())
      if (const std::string option = option_for(trace, report, *heap, options); !option.empty()) {
        separate();
        print_briefly(trace, report, *heap, option);
      }
  if (const auto& host = report.analysis->host_memory(); report.sections.live && !options.tree && host) {
    separate();
    constexpr std::string_view title = "host memory";
    std::cout << bold(std::string(title))
              << wrapped(std::string(title.size(), ' ') + ": " + host_words(*host), 0).substr(title.size());
  }
  if (report.sections.live && !trace.python_holders.empty() && !options.tree) {
    separate();
    print_holders_text(trace, options);
  }
  if (report.sections.live && !report.analysis->pool_errors().empty()) {
    separate();
    print_pool_errors_text(trace, report, options);
  }
  // A report on what holds the memory also mentions leaks, if there are any.
  const std::vector<LeakFinding>& findings = report.leaks().findings;
  const bool accused = !findings.empty() && accuses(findings.front().verdict);
  if (report.sections.leaks && (!report.sections.live || accused)) {
    separate();
    print_leaks_text(trace, report.leaks(), options);
  }
  if (report.sections.fragmentation && !report.sections.live) {
    separate();
    print_fragmentation_text(trace, report, options);
  }
  if (report.sections.ooms && (report.ooms().count > 0 || !report.sections.live)) {
    separate();
    print_ooms_text(trace, report, options);
  }
}

}  // namespace memreel::cli
