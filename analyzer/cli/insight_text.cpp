// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "analyzer/cli/output.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/model/lost_frees.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {

std::string heap_title(const Tables& tables, HeapId heap) {
  const std::string& name = tables[tables[heap].name];
  return tables[heap].device < 0 ? name : name + ", device " + std::to_string(tables[heap].device);
}

std::string place_of(const Tables& tables, const PoolStreamKey& pool_stream) {
  std::string text = "stream " + stream_label(tables, pool_stream.stream);
  if (pool_stream.pool != PoolId::default_pool) text += ", pool " + pool_label(tables, pool_stream.pool);
  if (pool_stream.small) text += ", small";
  return text;
}

std::string text_of_time(Nanoseconds duration) {
  return text_of_seconds(std::max(0.0, std::chrono::duration<double>(duration).count()));
}

namespace {

constexpr std::string_view unknown_capacity = "No settings tried: the capacity is unknown (--capacity SIZE).";

/// "20 settings tried", after "none of the".
std::string tried_text(std::size_t count) {
  return count == 1 ? "settings tried (one)" : counted(count, "setting") + " tried";
}

/// "None of the SETTINGS DOES WHAT.", or, where that is not certain, MAY WHAT and why.
std::string none_of(const Report& report, const std::string& settings, std::string_view does, std::string_view may,
                    const std::string& what) {
  const bool late = report.remedies().began_late;
  return "None of the " + settings + " " + std::string(late ? may : does) + what +
         (late ? ": the recording began late, and where they would have placed older memory is unknown." : ".");
}

}  // namespace

std::string oom_setting_text(const Report& report) {
  const OutOfMemories& ooms = report.ooms();
  if (ooms.fragmented == 0) return {};
  const std::string of = ooms.fragmented == 1 ? "the request" : "the " + text_of(ooms.fragmented) + " requests";
  const auto last = std::ranges::find_if(ooms.examined, [](const OutOfMemory& oom) { return !oom.serve_only.empty(); });
  if (!ooms.answer && last != ooms.examined.end())
    return report.remedies().tried[last->serve_only.front().remedy].text + " serves the " +
           (ooms.fragmented == 1 ? "" : "last ") + "request that failed by fragmentation, by replay, but " +
           (last->rest ? "is not known to serve the rest of its step."
                       : "what the program requests next is not recorded.");
  if (std::ranges::none_of(ooms.examined, [](const OutOfMemory& oom) { return oom.capacity.has_value(); }))
    return std::string(unknown_capacity);
  if (!ooms.answer)
    return none_of(report, "settings tried", "serves ", "is known to serve ", of + " that failed by fragmentation");
  const std::string setting = report.remedies().tried[ooms.answer->remedy].text;
  if (ooms.answer->served == ooms.fragmented)
    return setting + " serves " + (ooms.fragmented == 1 ? of : "all of " + of) +
           " that failed by fragmentation, by replay.";
  return setting + " serves most: " + text_of(ooms.answer->served) + " of " + of +
         " that failed by fragmentation, by replay.";
}

namespace {

std::string side_effects_text(const Report& report, std::size_t remedy) {
  const std::string effects =
      report.remedies().is_torch
          ? side_effects_of(report.remedies().baseline.policy, report.remedies().tried[remedy].outcome.policy)
          : "";
  return effects.empty() ? effects : " Side effects of the first: " + effects;
}

}  // namespace

std::string step_plan_text(const Report& report) {
  if (!report.step_plan() || report.step_plan()->saves() <= step_plan_margin) return "";
  const StepPlan& plan = *report.step_plan();
  return "A static plan of step " + text_of(plan.step) + ", in which most is live, needs " + text_of(plan.peak) + ", " +
         text_of_share(plan.saves()) + " less than " +
         (plan.least_by.empty() ? "with the recorded settings" : plan.least_by) + ", the least of what was tried (" +
         text_of(plan.least_reserved) + "): see memreel plan.";
}

std::string late_range_text(const Report& report) {
  const Remedies& remedies = report.remedies();
  const auto found =
      std::ranges::find_if(remedies.tried, [](const Remedy& each) { return each.outcome.late_saved.has_value(); });
  // Where a replay misses what was recorded, the verdict says nothing of settings.
  if (found == remedies.tried.end() || !report.verdict.setting) return "";
  const auto [least, most] = *found->outcome.late_saved;
  if (least == most || most <= 0) return "";
  const auto text = [](std::int64_t bytes) { return text_of(Bytes{static_cast<std::uint64_t>(std::abs(bytes))}); };
  return "The recording began late: depending on what was cached before, " + found->text + " saves " +
         (least < 0 ? "up to " + text(most) + " or needs up to " + text(least) + " more"
                    : text_of_range(text(least), text(most))) +
         ".";
}

std::string survivors_text(const Report& report, const OutOfMemory& oom) {
  static constexpr std::size_t most_named = 5;
  if (oom.verdict == OomVerdict::larger_than_device) return "No setting and no allocator serves it.";
  if (oom.level == Level::driver) return "No settings tried: the program asked the driver directly.";
  if (!oom.live_is_known || (oom.at_maximum && !oom.capacity))
    return oom.at_maximum ? "No settings tried: " + remedy_for_lack(oom) + "."
                          : "No settings tried: allocations are not in the recording.";
  if (!oom.capacity) return std::string(unknown_capacity);
  if (report.remedies().tried.empty() && report.remedies().is_torch)
    return "No settings compared: a replay does not reserve what was recorded.";
  if (report.remedies().tried.empty()) return "No settings tried: memreel knows none for this allocator.";
  if (oom.verdict == OomVerdict::lack_of_memory) return "No setting helps: " + remedy_for_lack(oom) + ".";
  const std::string at = " at " + text_of(*oom.capacity);
  if (!oom.serve_only.empty() && oom.survivors.empty()) {
    const Reach reach = oom.serve_only.front().reach;
    std::string text = "Serve this request" + at + ", by replay";
    if (reach == Reach::not_step)
      text += ", but not the rest of the step as earlier ones went on: ";
    else if (reach == Reach::step)
      text += ", and the rest of the step as earlier ones went on; later steps may need more: ";
    else
      text += "; what the program would have requested next is not recorded: ";
    std::size_t named = 0;
    for (const OutOfMemory::Served& served : oom.serve_only) {
      if (served.reach != reach || named == most_named) break;
      text += (named++ > 0 ? "; " : "") + report.remedies().tried[served.remedy].text;
      if (reach == Reach::request) text += " (" + text_of(served.spare) + " to spare)";
    }
    return text + "." + side_effects_text(report, oom.serve_only.front().remedy);
  }
  if (oom.survivors.empty())
    return none_of(report, tried_text(report.remedies().tried.size()), "would have survived", "is known to survive",
                   at);
  std::string text =
      std::string(oom.is_last ? "Would have survived this request and the rest of the step" : "Would have survived") +
      at + ", by replay: ";
  for (std::size_t i = 0; i < std::min(most_named, oom.survivors.size()); ++i)
    text += (i > 0 ? "; " : "") + report.remedies().tried[oom.survivors[i]].text;
  if (oom.survivors.size() > most_named)
    text += "; and " + text_of(std::uint64_t{oom.survivors.size() - most_named}) + " more";
  return text + "." + side_effects_text(report, oom.survivors.front());
}

namespace {

void print_more(std::size_t shown, std::size_t all) {
  if (shown < all) std::cout << "    ... and " << text_of(std::uint64_t{all - shown}) << " more (--top)\n";
}

/// Why the peak was reserved, in a sentence.
std::string origin_of_peak(const Trace& trace, const Fragmentation& found) {
  if (!found.growth) return "The peak was reserved before the recording began, and nothing made it grow since.";
  const PeakRequest& growth = *found.growth;
  std::string text = "The peak was reserved for a request of " + text_of(growth.requested) +
                     (growth.stack == StackId::none ? ", whose stack was not recorded"
                                                    : " at " + site_label(trace.tables, growth.stack)) +
                     " (" + place_of(trace.tables, growth.pool_stream) + ")";
  if (growth.stranded_stream > 0_B || growth.stranded_pool > 0_B)
    text += "; free blocks large enough for it: " + text_of(growth.stranded_stream) + " on other streams, " +
            text_of(growth.stranded_pool) + " in other pools";
  return text + ".";
}

void print_totals(const Trace& trace, const Fragmentation& found) {
  const FragmentationPoint& peak = found.at_peak;
  const bool is_history = has_history(trace);
  std::string text = text_of_share(peak.fragmentation()) + " fragmentation: " + text_of(peak.allocated) + " of " +
                     text_of(peak.reserved) + " reserved were allocated";
  if (is_history) text += " at the reserved peak (event " + text_of(peak.events - 1);
  if (is_history && has_times(trace.events)) text += ", after " + text_of_time(since_start(trace, peak.events - 1));
  std::cout << wrapped(text + (is_history ? ")" : ""), 2) << '\n';
  TextTable table({{"bytes", Align::right}, {"what they were"}});
  for (const auto& [bytes, what] : parts_of(peak)) table.add_row({text_of(bytes), what});
  table.print(std::cout, 4);
  if (is_history) std::cout << '\n' << wrapped(origin_of_peak(trace, found), 2);
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
  if (remedies.tried.empty() || remedies.baseline_peak == 0_B) return;
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
                   text_of(remedy.outcome.failures()), remedy.text + release_mark(remedy.outcome)});
    ++shown;
  }
  if (shown == 0)
    std::cout << "    none of the " << tried_text(remedies.tried.size()) << '\n';
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
                             "), kept by " + counted(pinned.pin_count, "block") + ":",
                         4);
    for (const AllocationId pin : pinned.pins) {
      const Event event = trace.events[trace.events.begin_of(pin)];
      const std::string age =
          has_times(trace.events) ? text_of_time(found.at_peak.time - event.time) + " old, " : std::string();
      std::cout << wrapped(text_of(event.size) + ", " + age + label_in(trace, site_label(trace.tables, event.stack)),
                           6);
    }
    if (pinned.pins.size() < pinned.pin_count)
      std::cout << "      ... and " << text_of(pinned.pin_count - pinned.pins.size())
                << (has_history(trace) ? " younger\n" : " more\n");
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
  if (report.fragmentation().empty()) {
    std::cout << "fragmentation: not known, no segments were recorded\n";
    return;
  }
  bool first = true;
  for (const Fragmentation* const heap : report.fragmentation_by_importance()) {
    const Fragmentation& found = *heap;
    if (!std::exchange(first, false)) std::cout << '\n';
    std::cout << bold("fragmentation of " + heap_title(trace.tables, found.heap)) << "\n\n";
    print_totals(trace, found);
    print_over_time(found);
    print_sites(found, options.top);
    print_segments(trace, found, options.top);
    print_pool_streams(trace, found, options.top);
    print_size_classes(found, options.top);
  }
  print_remedies(report.remedies(), options.top);
  for (const std::string& text : {late_range_text(report), step_plan_text(report)})
    if (!text.empty()) std::cout << '\n' << wrapped(text, 4);
}

namespace {

void print_wrapped(const std::string& text, std::size_t indent) { std::cout << wrapped(text, indent); }

/// Lines of a label and a right-aligned quantity.
void print_numbers(const OutOfMemory& oom) {
  TextTable table({{"bytes", Align::right}, {"at that moment"}});
  const auto add = [&](Bytes bytes, const std::string& what) { table.add_row({text_of(bytes), what}); };
  add(oom.requested, "requested");
  if (oom.needed != oom.requested) add(oom.needed, "size of a new segment for it");
  if (oom.live_is_known) add(oom.live, "live (requested and not freed)");
  if (oom.level == Level::framework && oom.live_is_known) {
    add(oom.allocated, "allocated (with rounding and unsplit remainders)");
    if (oom.pending > 0_B) add(oom.pending, "awaiting free: freed, but still used by another stream");
  }
  if (oom.level == Level::framework && oom.reserved > 0_B) {  // else the trace has no segments
    add(oom.reserved, "reserved by the pool");
    add(oom.free, "free in the pool, in " + counted(oom.gaps, "block"));
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
  std::cout << "    |" << gap.strip << "|\n\n";
  TextTable table(
      {{"offset", Align::right}, {"bytes", Align::right}, {"use"}, {"age", Align::right}, {"who holds it"}});
  const Nanoseconds now = trace.events.time(oom.event);
  for (std::size_t i = 0; i < gap.blocks.size(); ++i) {
    const HeapBlock& block = gap.blocks[i];
    std::vector<std::string> row{text_of(block.address - segment.address), text_of(block.size),
                                 std::string(name_of(block.use))};
    if (block.allocation != AllocationId::none) {
      const Event event = trace.events[trace.events.begin_of(block.allocation)];
      row.push_back(has_times(trace.events) ? text_of_time(now - event.time) : "");
      row.push_back(label_in(trace, site_label(trace.tables, event.stack)));
    } else if (i == gap.gap) {
      row.insert(row.end(), {"", "<- this free block"});
    }
    table.add_row(std::move(row));
  }
  table.print(std::cout, 4);
}

void print_oom(const Trace& trace, const Report& report, const OutOfMemory& oom) {
  const Event event = trace.events[oom.event];
  const std::string site = site_label(trace.tables, event.stack);
  std::cout << red("out of memory") << " at event " << text_of(oom.event) << ", "
            << (has_times(trace.events) ? text_of_time(since_start(trace, oom.event)) + " after the start, " : "")
            << heap_title(trace.tables, oom.heap) << ":\n"
            << wrapped(text_of(oom.requested) + (site == no_stack_label ? "" : " for " + site) + " (" +
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
  const std::size_t shown = std::min(top, report.ooms().examined.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const OutOfMemory& oom = report.ooms().examined[i];
    const std::string site = site_label(trace.tables, trace.events.stack(oom.event));
    table.add_row({text_of(oom.event), text_of(oom.requested),
                   oom.reserved > 0_B ? text_of(oom.largest_in_pool_stream) : "", std::string(name_of(oom.verdict)),
                   survivor_text(report.remedies(), oom), site == no_stack_label ? "" : site});
  }
  table.print(std::cout, 2);
  if (const std::uint64_t all = report.ooms().count - report.ooms().unsized; shown < all)
    std::cout << "  ... and " << text_of(all - shown) << " more (--top)\n";
}

}  // namespace

std::string unsized_text(const OutOfMemories& ooms) {
  return counted(ooms.unsized, "request") + " failed whose size is not recorded: why, and what would serve " +
         (ooms.unsized == 1 ? "it" : "them") + ", is not known.";
}

void print_ooms_text(const Trace& trace, const Report& report, const ReportOptions& options) {
  if (report.ooms().count == 0) {
    const bool lacks_events = may_lack_frees(trace.losses, trace.read);
    std::cout << "out of memory: no request failed" << (lacks_events ? " of those that were recorded" : "") << '\n';
    return;
  }
  std::cout << red("failed requests") << ": " << text_of(report.ooms().count) << "\n\n";
  if (const std::string setting = oom_setting_text(report); !setting.empty()) {
    print_wrapped(setting, 2);
    std::cout << '\n';
  }
  if (report.ooms().unsized > 0) print_wrapped(unsized_text(report.ooms()), 2);
  if (report.ooms().examined.empty()) return;
  print_overview(trace, report, options.top);
  if (report.sections.live) {
    std::cout << "  each in full: --oom\n";
    return;
  }
  for (std::size_t i = 0; i < std::min(options.top, report.ooms().examined.size()); ++i) {
    std::cout << '\n';
    print_oom(trace, report, report.ooms().examined[i]);
  }
}

}  // namespace memreel::cli
