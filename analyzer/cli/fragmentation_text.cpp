#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <string>
#include <utility>

#include "analyzer/cli/console.h"
#include "analyzer/cli/insight_text.h"
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

/// Why the peak was reserved, in a sentence.
std::string origin_of_peak(const Trace& trace, const Fragmentation& found) {
  if (!found.growth) return "The peak was reserved before the recording began, and nothing made it grow since.";
  const PeakRequest& growth = *found.growth;
  std::string text = "The peak was reserved for a request of " + text_of(growth.requested) + " at " +
                     site_label(trace.tables, growth.stack) + " (" + place_of(trace.tables, growth.pool_stream) + ")";
  if (growth.stranded_stream > 0_B || growth.stranded_pool > 0_B)
    text += "; free blocks large enough for it: " + text_of(growth.stranded_stream) + " on other streams, " +
            text_of(growth.stranded_pool) + " in other pools";
  return text + ".";
}

void print_totals(const Trace& trace, const Fragmentation& found) {
  const FragmentationPoint& peak = found.at_peak;
  std::cout << wrapped(text_of_share(peak.fragmentation()) + " fragmentation: " + text_of(peak.allocated) + " of " +
                           text_of(peak.reserved) + " reserved were allocated at the reserved peak (event " +
                           text_of(peak.events - 1) + ", after " + text_of_time(since_start(trace, peak.time)) + ")",
                       2)
            << '\n';
  TextTable table({{"bytes", Align::right}, {"what they were"}});
  for (const auto& [bytes, what] : parts_of(peak)) table.add_row({text_of(bytes), what});
  table.print(std::cout, 4);
  std::cout << '\n' << wrapped(origin_of_peak(trace, found), 2);
}

/// Sparklines with eight levels, one for each stretch of time.
void print_over_time(const Fragmentation& found) {
  static constexpr std::array<const char*, 9> heights{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (found.over_time.size() < 2) return;
  std::string line;
  for (const FragmentationPoint& point : found.over_time) {
    line += heights.at(static_cast<std::size_t>(std::lround(std::clamp(point.fragmentation(), 0.0, 1.0) * 8)));
  }
  std::cout << "\n  share of reserved memory that is not allocated, over time (full height: 100 %)\n    |" << line
            << "|\n";
  std::cout << "  most unreleasable: " << text_of(found.worst.unreleasable) << " after event "
            << text_of(found.worst.events) << "\n";
}

void print_remedies(const Remedies& remedies, std::size_t top) {
  if (remedies.tried.empty()) return;
  std::cout << "\n  " << bold("what saves memory") << ", by replay (peak "
            << (remedies.is_torch ? "with the recorded settings: " : "as recorded: ") << text_of(remedies.baseline_peak)
            << ")\n\n";
  TextTable table({{"saves", Align::right},
                   {"reserved", Align::right},
                   {"calls", Align::right},
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
    std::cout << "    none of " << text_of(std::uint64_t{remedies.tried.size()}) << " settings tried\n";
  else
    table.print(std::cout, 4);
  if (remedies.left_out > 0)
    std::cout << "    " << text_of(remedies.left_out)
              << " more were not tried on a trace this long: see memreel tune\n";
}

void print_sites(const Fragmentation& found, std::size_t top) {
  if (found.sites.empty()) return;
  std::cout << "\n  " << bold("whose blocks keep segments from being released") << " (alone: nobody else's)\n\n";
  TextTable table({{"unreleasable", Align::right},
                   {"alone", Align::right},
                   {"segments", Align::right},
                   {"blocks", Align::right},
                   {"bytes", Align::right},
                   {"allocated at", Align::left, Fit::clipped}});
  const std::size_t shown = std::min(top, found.sites.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const PinningSite& site = found.sites[i];
    table.add_row({text_of(site.unreleasable), text_of(site.alone), text_of(site.segments), text_of(site.blocks),
                   text_of(site.bytes), site.label});
  }
  table.print(std::cout, 4);
  print_more(shown, found.sites.size());
}

void print_segments(const Trace& trace, const Fragmentation& found, std::size_t top) {
  if (found.pinned.empty()) return;
  std::cout << "\n  " << bold("segments with unreleasable memory") << ": "
            << text_of(std::uint64_t{found.pinned.size()}) << "\n";
  const std::size_t shown = std::min(top, found.pinned.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const PinnedSegment& pinned = found.pinned[i];
    const HeapSegment& segment = pinned.segment;
    std::cout << '\n'
              << wrapped(text_of(segment.unreleasable) + " free of " + text_of(segment.size) + " at " +
                             hexadecimal(segment.address.value) + " (" + place_of(trace.tables, segment.pool_stream) +
                             "), kept by " + text_of(pinned.pin_count) +
                             (pinned.pin_count == 1 ? " block:" : " blocks:"),
                         4);
    for (const AllocationId pin : pinned.pins) {
      const Event event = trace.events[trace.allocation_events[index(pin)]];
      std::cout << wrapped(text_of(event.size) + ", " + text_of_time(found.at_peak.time - event.time) + " old, " +
                               site_label(trace.tables, event.stack),
                           6);
    }
    if (pinned.pins.size() < pinned.pin_count)
      std::cout << "      ... and " << text_of(pinned.pin_count - pinned.pins.size()) << " younger\n";
  }
  print_more(shown, found.pinned.size());
}

void print_pool_streams(const Trace& trace, const Fragmentation& found, std::size_t top) {
  std::cout << "\n  " << bold("by stream and pool") << "\n\n";
  TextTable table({{"free", Align::right},
                   {"largest", Align::right},
                   {"unreleasable", Align::right},
                   {"reserved", Align::right},
                   {"segments", Align::right},
                   {"stream"},
                   {"pool"},
                   {"sizes"}});
  const std::size_t shown = std::min(top, found.pool_streams.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const PoolStreamUse& use = found.pool_streams[i];
    table.add_row({text_of(use.free()), text_of(use.largest_free), text_of(use.unreleasable), text_of(use.reserved),
                   text_of(use.segments), stream_label(trace.tables, use.pool_stream.stream),
                   pool_label(trace.tables, use.pool_stream.pool), use.pool_stream.small ? "small" : "large"});
  }
  table.print(std::cout, 4);
  print_more(shown, found.pool_streams.size());
}

void print_size_classes(const Fragmentation& found, std::size_t top) {
  if (found.size_classes.empty() || found.size_classes.front().waste() == 0_B) return;
  std::cout << "\n  " << bold("rounding and unsplit remainders, by requested size") << "\n\n";
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
                   text_of(size.least) + " to below " + text_of(size.least * 2)});
  }
  table.print(std::cout, 4);
  print_more(shown, wasteful);
}

}  // namespace

void print_fragmentation_text(const Trace& trace, const Report& report, const ReportOptions& options) {
  if (report.fragmentation.empty()) {
    std::cout << "fragmentation: not known, no segments were recorded\n";
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
    print_pool_streams(trace, found, options.top);
    print_size_classes(found, options.top);
  }
  print_remedies(report.remedies, options.top);
  if (const std::string text = step_plan_text(report); !text.empty()) std::cout << '\n' << wrapped(text, 4);
}

}  // namespace memreel::cli
