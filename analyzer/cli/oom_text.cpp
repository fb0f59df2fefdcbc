#include <algorithm>
#include <iostream>
#include <string>

#include "analyzer/cli/console.h"
#include "analyzer/cli/insight_text.h"
#include "analyzer/cli/report.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/text_table.h"
#include "formats/model/origin_text.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

void print_wrapped(const std::string& text, std::size_t indent) { std::cout << wrapped(text, indent); }

/// Lines of a label and a right-aligned quantity.
void print_numbers(const OutOfMemory& oom) {
  TextTable table({{"bytes", Align::right}, {"at that moment"}});
  const auto add = [&](Bytes bytes, const std::string& what) { table.add_row({text_of(bytes), what}); };
  add(oom.requested, "requested");
  if (oom.needed != oom.requested) add(oom.needed, "size of a new segment for it");
  add(oom.live, "live (requested and not freed)");
  if (oom.level == Level::framework) {
    add(oom.allocated, "allocated (with rounding and unsplit remainders)");
    if (oom.pending > 0_B) add(oom.pending, "awaiting free: freed, but still used by another stream");
    add(oom.reserved, "reserved by the pool");
    add(oom.free, "free in the pool, in " + text_of(oom.gaps) + (oom.gaps == 1 ? " block" : " blocks"));
    add(oom.free_in_pool_stream, "of it for this stream, pool and size");
    add(oom.largest_in_pool_stream, "the largest free block for this stream, pool and size");
    add(oom.largest_free, "the largest free block of any");
  }
  if (oom.stranded.other_streams > 0_B)
    add(oom.stranded.other_streams, "free on other streams, in blocks large enough");
  if (oom.stranded.other_pools > 0_B) add(oom.stranded.other_pools, "free in other pools, in blocks large enough");
  if (oom.capacity) add(*oom.capacity, "that this pool could have, at most");
  if (oom.device_free)
    add(*oom.device_free, oom.sample_age ? "free on the device, by its samples" : "free on the device");
  if (oom.device_total) add(*oom.device_total, "memory of the device");
  table.print(std::cout, 4);
}

void print_gap(const Trace& trace, const OutOfMemory& oom, const GapMap& gap, const std::string& title) {
  const HeapSegment& segment = gap.segment;
  std::cout << "\n  " << title << ": " << text_of(gap.size()) << ", " << place_of(trace.tables, segment.pool_stream)
            << "\n";
  std::cout << "    segment of " << text_of(segment.size) << " at " << hexadecimal(segment.address.value) << "\n";
  std::cout << "    |" << strip_of(gap.blocks, segment.address, segment.end(), 64) << "|\n\n";
  TextTable table(
      {{"offset", Align::right}, {"bytes", Align::right}, {"use"}, {"age", Align::right}, {"who holds it"}});
  const Nanoseconds now = trace.events.time[oom.event];
  for (std::size_t i = gap.first_shown(); i < gap.end_shown(); ++i) {
    const HeapBlock& block = gap.blocks[i];
    std::vector<std::string> row{text_of(block.address - segment.address), text_of(block.size),
                                 std::string(name_of(block.use))};
    if (block.allocation != AllocationId::none) {
      const Event event = trace.events[trace.allocation_events[index(block.allocation)]];
      row.push_back(text_of_time(now - event.time));
      row.push_back(site_label(trace.tables, event.stack));
    } else if (i == gap.gap) {
      row.insert(row.end(), {"", "<- this free block"});
    }
    table.add_row(std::move(row));
  }
  table.print(std::cout, 4);
}

void print_oom(const Trace& trace, const Report& report, const OutOfMemory& oom) {
  const Event event = trace.events[oom.event];
  std::cout << red("out of memory") << " at event " << text_of(oom.event) << ", "
            << text_of_time(since_start(trace, event.time)) << " after the start, "
            << heap_title(trace.tables, oom.heap) << ":\n"
            << wrapped(text_of(oom.requested) + " for " + site_label(trace.tables, event.stack) + " (" +
                           place_of(trace.tables, oom.pool_stream) + ")",
                       2)
            << '\n';
  print_wrapped(explanation(oom), 2);
  print_wrapped(survivors_text(report, oom), 2);
  std::cout << '\n';
  print_numbers(oom);
  if (oom.gap_in_pool_stream)
    print_gap(trace, oom, *oom.gap_in_pool_stream, "around the largest free block for this request");
  if (oom.largest_gap) print_gap(trace, oom, *oom.largest_gap, "around the largest free block of any stream and pool");
}

/// All failures, one line each.
void print_overview(const Trace& trace, const Report& report, std::size_t top) {
  TextTable table({{"event", Align::right},
                   {"requested", Align::right},
                   {"largest free", Align::right},
                   {"verdict"},
                   {"survives with"},
                   {"where", Align::left, Fit::clipped}});
  const std::size_t shown = std::min(top, report.ooms.examined.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const OutOfMemory& oom = report.ooms.examined[i];
    table.add_row({text_of(oom.event), text_of(oom.requested), text_of(oom.largest_in_pool_stream),
                   std::string(name_of(oom.verdict)), survivor_text(report.remedies, oom),
                   site_label(trace.tables, trace.events.stack[oom.event])});
  }
  table.print(std::cout, 2);
  if (shown < report.ooms.count) std::cout << "  ... and " << text_of(report.ooms.count - shown) << " more (--top)\n";
}

}  // namespace

void print_ooms_text(const Trace& trace, const Report& report, const ReportOptions& options) {
  if (report.ooms.count == 0) {
    std::cout << "out of memory: no request failed\n";
    return;
  }
  std::cout << red("failed requests") << ": " << text_of(report.ooms.count) << "\n\n";
  if (const std::string setting = oom_setting_text(report); !setting.empty()) {
    print_wrapped(setting, 2);
    std::cout << '\n';
  }
  print_overview(trace, report, options.top);
  if (report.sections.live) {
    std::cout << "  each in full: --oom\n";
    return;
  }
  for (std::size_t i = 0; i < std::min(options.top, report.ooms.examined.size()); ++i) {
    std::cout << '\n';
    print_oom(trace, report, report.ooms.examined[i]);
  }
}

}  // namespace memreel::cli
