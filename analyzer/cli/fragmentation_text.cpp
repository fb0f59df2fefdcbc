#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <string>
#include <utility>

#include "analyzer/cli/console.h"
#include "analyzer/cli/insight_words.h"
#include "analyzer/cli/report.h"
#include "analyzer/replay/unit_costs.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/text_table.h"
#include "formats/model/origin_text.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

void print_more(std::size_t shown, std::size_t all) {
  if (shown < all) std::cout << "    ... and " << text_of(std::uint64_t{all - shown}) << " more (--top)\n";
}

void print_totals(const Trace& trace, const Fragmentation& found) {
  const FragmentationPoint& peak = found.at_peak;
  std::cout << "  " << text_of(peak.allocated) << " of " << text_of(peak.reserved)
            << " reserved were allocated when the reserved peak was reached (event " << text_of(found.growth.event)
            << ", " << text_of_time(since_start(trace, peak.time))
            << " after the start): " << text_of_share(peak.fragmentation()) << " fragmentation\n\n";
  TextTable table({{"bytes", Align::right}, {"what they were"}});
  const auto add = [&](Bytes bytes, const char* what) {
    if (bytes > 0_B) table.add_row({text_of(bytes), what});
  };
  add(peak.requested, "live, as requested");
  add(peak.allocated - std::min(peak.requested, peak.allocated), "rounding and unsplit tails");
  add(peak.pending, "freed, but the device was still busy with it");
  add(peak.hostage, "free, but pinned: something beside it was alive");
  add(peak.free() - peak.hostage, "free, in pieces that could have been given back");
  table.print(std::cout, 4);
  std::cout << "\n  The last memory was reserved for a request of " << text_of(found.growth.requested) << " at "
            << site_label(trace.tables, found.growth.stack) << " (" << place_of(trace.tables, found.growth.lane) << ")";
  if (found.growth.stranded_stream > 0_B || found.growth.stranded_pool > 0_B)
    std::cout << ", while holes large enough for it held " << text_of(found.growth.stranded_stream)
              << " on other streams and " << text_of(found.growth.stranded_pool) << " in other pools";
  std::cout << ".\n";
}

/// Lines of eight heights, one for each stretch of time.
void print_over_time(const Fragmentation& found) {
  static constexpr std::array<const char*, 9> heights{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (found.over_time.size() < 2) return;
  std::string line;
  for (const FragmentationPoint& point : found.over_time) {
    line += heights.at(static_cast<std::size_t>(std::lround(std::clamp(point.fragmentation(), 0.0, 1.0) * 8)));
  }
  std::cout << "\n  over time, share of reserved memory not allocated; full height is 100 %\n    |" << line << "|\n";
  std::cout << "  most pinned: " << text_of(found.worst.hostage) << " after event " << text_of(found.worst.events)
            << "\n";
}

void print_remedies(const Remedies& remedies, std::size_t top) {
  if (remedies.tried.empty()) return;
  std::cout << "\n  " << bold("what gives memory back") << ", replayed (peak "
            << (remedies.is_torch ? "as it was set: " : "when recorded: ") << text_of(remedies.baseline_peak)
            << ")\n\n";
  TextTable table({{"gives back", Align::right},
                   {"peak reserved", Align::right},
                   {"driver calls", Align::right},
                   {"failed", Align::right},
                   {remedies.is_torch ? "setting" : "allocator"}});
  std::size_t shown = 0;
  for (const Remedy& remedy : remedies.tried) {
    if (remedies.gives_back(remedy) <= 0 || shown == top) break;
    table.add_row({text_of(Bytes{static_cast<std::uint64_t>(remedies.gives_back(remedy))}),
                   text_of(remedy.outcome.peak_reserved()), text_of(count_of(remedy.outcome.driver_calls())),
                   text_of(remedy.outcome.failures()), remedy.text});
    ++shown;
  }
  if (shown == 0)
    std::cout << "    nothing that was tried: " << text_of(std::uint64_t{remedies.tried.size()}) << " settings\n";
  else
    table.print(std::cout, 4);
  if (remedies.left_out > 0)
    std::cout << "    " << text_of(remedies.left_out) << " more were not tried on a trace as long as this: see tune\n";
}

void print_sites(const Fragmentation& found, std::size_t top) {
  if (found.sites.empty()) return;
  std::cout << "\n  " << bold("who pins them") << " (alone: where nobody else has a block in the segment)\n\n";
  TextTable table({{"pinned", Align::right},
                   {"alone", Align::right},
                   {"segments", Align::right},
                   {"blocks", Align::right},
                   {"bytes", Align::right},
                   {"allocated at"}});
  const std::size_t shown = std::min(top, found.sites.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const PinningSite& site = found.sites[i];
    table.add_row({text_of(site.hostage), text_of(site.alone), text_of(site.segments), text_of(site.blocks),
                   text_of(site.bytes), site.label});
  }
  table.print(std::cout, 4);
  print_more(shown, found.sites.size());
}

void print_segments(const Trace& trace, const Fragmentation& found, std::size_t top) {
  if (found.pinned.empty()) return;
  std::cout << "\n  " << bold("pinned segments") << ": " << text_of(std::uint64_t{found.pinned.size()}) << "\n";
  const std::size_t shown = std::min(top, found.pinned.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const PinnedSegment& pinned = found.pinned[i];
    const HeapSegment& segment = pinned.segment;
    std::cout << "\n    " << text_of(segment.hostage) << " free of " << text_of(segment.size) << " at "
              << hexadecimal(segment.address.value) << " (" << place_of(trace.tables, segment.lane) << "), pinned by "
              << text_of(pinned.pin_count) << (pinned.pin_count == 1 ? " block" : " blocks") << ":\n";
    for (const AllocationId pin : pinned.pins) {
      const Event event = trace.events[trace.allocation_events[index(pin)]];
      std::cout << "      " << text_of(event.size) << ", " << text_of_time(found.at_peak.time - event.time) << " old, "
                << site_label(trace.tables, event.stack) << "\n";
    }
    if (pinned.pins.size() < pinned.pin_count)
      std::cout << "      ... and " << text_of(pinned.pin_count - pinned.pins.size()) << " younger\n";
  }
  print_more(shown, found.pinned.size());
}

void print_lanes(const Trace& trace, const Fragmentation& found, std::size_t top) {
  std::cout << "\n  " << bold("by stream and pool") << "\n\n";
  TextTable table({{"free", Align::right},
                   {"largest", Align::right},
                   {"pinned", Align::right},
                   {"reserved", Align::right},
                   {"segments", Align::right},
                   {"stream"},
                   {"pool"},
                   {"sizes"}});
  const std::size_t shown = std::min(top, found.lanes.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const LaneUse& use = found.lanes[i];
    table.add_row({text_of(use.free()), text_of(use.largest_free), text_of(use.hostage), text_of(use.reserved),
                   text_of(use.segments), stream_label(trace.tables, use.lane.stream),
                   pool_label(trace.tables, use.lane.pool), use.lane.small ? "small" : "large"});
  }
  table.print(std::cout, 4);
  print_more(shown, found.lanes.size());
}

void print_size_classes(const Fragmentation& found, std::size_t top) {
  if (found.size_classes.empty() || found.size_classes.front().waste() == 0_B) return;
  std::cout << "\n  " << bold("rounding and unsplit tails, by requested size") << "\n\n";
  TextTable table({{"wasted", Align::right},
                   {"share", Align::right},
                   {"allocated", Align::right},
                   {"blocks", Align::right},
                   {"requests of"}});
  const auto wasteful = static_cast<std::size_t>(
      std::ranges::count_if(found.size_classes, [](const SizeClass& size) { return size.waste() > 0_B; }));
  const std::size_t shown = std::min(top, wasteful);
  for (std::size_t i = 0; i < shown; ++i) {
    const SizeClass& size = found.size_classes[i];
    table.add_row({text_of(size.waste()), text_of_share(share_of(size.waste(), size.allocated)),
                   text_of(size.allocated), text_of(size.count),
                   text_of(size.least) + " and more, below " + text_of(size.least * 2)});
  }
  table.print(std::cout, 4);
  print_more(shown, wasteful);
}

}  // namespace

void print_fragmentation_text(const Trace& trace, const Report& report, const ReportOptions& options) {
  if (report.fragmentation.empty()) {
    std::cout
        << "fragmentation: no heap of this trace records its segments, so nothing can be said about holes in them\n";
    return;
  }
  bool first = true;
  for (const Fragmentation& found : report.fragmentation) {
    if (!std::exchange(first, false)) std::cout << '\n';
    std::cout << bold("fragmentation of " + heap_title(trace.tables, found.heap)) << "\n\n";
    print_totals(trace, found);
    print_over_time(found);
    print_sites(found, options.top);
    print_segments(trace, found, options.top);
    print_lanes(trace, found, options.top);
    print_size_classes(found, options.top);
  }
  print_remedies(report.remedies, options.top);
}

}  // namespace memreel::cli
