// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/measured.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analyzer/report/live_groups.h"
#include "analyzer/report/own_frame.h"
#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel {

std::vector<std::string> what_is_missing(const Losses& losses, const ReadReport& read, Bytes file_size) {
  std::vector<std::string> missing;
  if (losses.history_overflowed) missing.emplace_back("the oldest events, overwritten in the recorder's ring buffer");
  if (losses.folded_events > 0)
    missing.push_back(text_of(losses.folded_events) + " older events, which the flight recorder has summed up");
  if (is_no_history(losses.skipped)) {
    missing.emplace_back(losses.skipped == all_of_a_history() ? "the history: it is a snapshot of one instant"
                                                              : "what happened between the snapshots of a series");
  } else {
    if (losses.began_late || losses.preexisting_allocations > 0)
      missing.emplace_back("the history before the recording began, when the program already held memory");
    if (!losses.skipped.empty())
      missing.push_back("events that the recorder was told to skip: " + losses.skipped.text());
  }
  if (losses.ring_full > 0) missing.push_back(text_of(losses.ring_full) + " events that the recorder dropped");
  if (losses.hook_refused > 0) missing.push_back(text_of(losses.hook_refused) + " calls that could not be observed");
  if (losses.unknown_actions > 0)
    missing.push_back(text_of(losses.unknown_actions) +
                      " records that were not read: of unknown kinds or other processes");
  if (losses.unmatched_frees > 0) missing.push_back("the allocations of " + text_of(losses.unmatched_frees) + " frees");
  if (read.unknown_packets > 0 || read.unknown_events > 0)
    missing.emplace_back("what a newer memreel wrote and this one can't read");
  if (!read.intact()) missing.emplace_back("the damaged parts of the file");
  if (!read.has_footer && file_size != 0_B)
    missing.emplace_back("the end: the recorder was killed, or is still writing");
  return missing;
}

namespace {

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// What one function holds, and its largest stack.
struct Held {
  Bytes bytes;
  Bytes of_stack;
  StackId stack = StackId::none;
};
using SiteBytes = std::map<std::pair<std::string, std::string>, Held>;

void add(const Trace& trace, StackId stack, Bytes bytes, SiteBytes& sites) {
  const FrameText frame = own_frame(frames_of(trace.tables, stack));
  const std::string_view file = names_operator(frame.kind) ? std::string_view() : frame.file;
  Held& held = sites[{display_name(frame.kind, frame.function), std::string(base_name(file))}];
  held.bytes += bytes;
  if (bytes <= held.of_stack) return;
  held.of_stack = bytes;
  held.stack = stack;
}

/// Adds what each function holds at the peak of `heap`.
void add_sites(const Trace& trace, const std::vector<Lifetime>& lives, const HeapHistory& heap, SiteBytes& sites) {
  if (heap.allocations == 0) return;
  for (const LiveGroup& group : live_groups(trace, lives, {}, heap.heap, heap.peak_live_event + 1, GroupBy::stack))
    add(trace, group.stack, group.bytes, sites);
}

/// The user's own frames; all frames if there are none.
std::vector<std::string> own_stack(const Trace& trace, StackId stack) {
  const std::vector<FrameText> frames = frames_of(trace.tables, stack);
  const bool any = std::ranges::any_of(frames, [](const FrameText& frame) { return frame.owner == CodeOwner::user; });
  std::vector<std::string> texts;
  for (const FrameText& frame : frames)
    if (!any || frame.owner == CodeOwner::user) texts.push_back(text_of(frame));
  return texts;
}

std::vector<SiteMetrics> largest(const Trace& trace, const SiteBytes& bytes) {
  std::vector<SiteMetrics> sites;
  for (const auto& [place, held] : bytes)
    sites.push_back(
        {.function = place.first, .file = place.second, .bytes = held.bytes, .stack = own_stack(trace, held.stack)});
  std::ranges::stable_sort(sites, std::ranges::greater(), &SiteMetrics::bytes);
  if (sites.size() > max_sites) sites.resize(max_sites);
  return sites;
}

/// Adds the peaks of `heap`: those of a device's heaps may be at different times.
void add_categories(const Trace& trace, const std::vector<Lifetime>& lives, const Categories& categories, HeapId heap,
                    std::map<Category, CategoryMetrics>& metrics) {
  struct Peak {
    Bytes most, most_with_unknown;
    std::uint64_t events = 0;
  };
  std::array<Bytes, category_count> live{};
  std::map<Category, Peak> peaks;
  for (const auto& entry : metrics) peaks[entry.first];
  const EventColumns& events = trace.events;
  for (std::size_t i = 0; i < events.count(); ++i) {
    const AllocationId id = events.allocation[i];
    const bool is_more = events.kind[i] == EventKind::alloc;
    if (id == AllocationId::none || (!is_more && events.kind[i] != EventKind::free_requested)) continue;
    const std::uint32_t begin = trace.allocation_events[index(id)];
    if (trace.tables[events.origin[begin]].heap != heap) continue;
    Bytes& of_category = live.at(static_cast<std::size_t>(categories.category(id)));
    of_category = is_more ? of_category + events.size[begin] : of_category - events.size[begin];
    if (!is_more) continue;
    const Bytes unknown = live.at(static_cast<std::size_t>(Category::unknown));
    for (auto& [category, peak] : peaks) {
      const Bytes now = live.at(static_cast<std::size_t>(category));
      peak.most_with_unknown = std::max(peak.most_with_unknown, category == Category::unknown ? now : now + unknown);
      if (now <= peak.most) continue;
      peak.most = now;
      peak.events = i + 1;
    }
  }
  for (auto& [category, peak] : peaks) {
    CategoryMetrics& of_category = metrics[category];
    const bool decides = peak.most > of_category.peak;
    of_category.peak += peak.most;
    of_category.peak_with_unknown += peak.most_with_unknown;
    if (!decides) continue;
    const std::vector<CategoryShare> shares = category_shares(trace, lives, categories, heap, peak.events);
    const auto share = std::ranges::find(shares, category, &CategoryShare::category);
    if (share != shares.end()) of_category.place = share->holders.front().label;
  }
}

std::vector<DeviceMetrics> device_metrics(const Analysis& analysis, std::span<const Prepared> heaps,
                                          const MeasureOptions& options) {
  struct OfDevice {
    Bytes peak_live, leaked;
    std::string leaks_not_judged;
    SiteBytes sites, leaks;
    std::map<Category, CategoryMetrics> categories;
  };
  const Trace& trace = analysis.trace();
  const std::vector<HeapHistory>& histories = analysis.histories();
  std::map<std::int32_t, OfDevice> by_device;
  for (const Prepared& heap : heaps) {
    const auto history = std::ranges::find(histories, heap.heap, &HeapHistory::heap);
    if (history == histories.end()) continue;
    OfDevice& of = by_device[heap.device];
    of.peak_live += history->peak_live;
    add_sites(trace, analysis.lives(), *history, of.sites);
    for (const Category category : options.categories) of.categories[category];
    if (!of.categories.empty())
      add_categories(trace, analysis.lives(), analysis.categories(), heap.heap, of.categories);
  }
  if (options.leaks) {
    const LeakReport& report = analysis.leaks();
    std::map<std::int32_t, const Rounds*> most;  // by device, of its heaps
    for (const HeapRounds& of : report.heaps) {
      const auto heap = std::ranges::find(heaps, of.heap, &Prepared::heap);
      if (heap == heaps.end()) continue;
      const Rounds*& rounds = most[heap->device];
      if (rounds == nullptr || rounds->count() < of.rounds.count()) rounds = &of.rounds;
    }
    for (const auto& [device, rounds] : most)
      if (!rounds->suffice()) by_device[device].leaks_not_judged = text_of(*rounds);
    if (report.unrecorded)
      for (auto& [device, of] : by_device) of.leaks_not_judged = leaks_not_judged;
    for (const LeakFinding& finding : report.findings) {
      const auto heap = std::ranges::find(heaps, finding.heap, &Prepared::heap);
      if (!accuses(finding.verdict) || heap == heaps.end()) continue;
      by_device[heap->device].leaked += finding.bytes;
      add(trace, finding.stack, finding.bytes, by_device[heap->device].leaks);
    }
  }
  std::vector<DeviceMetrics> devices;
  for (const auto& [device, of] : by_device)
    devices.push_back({.device = device,
                       .peak_live = of.peak_live,
                       .leaked = of.leaked,
                       .leaks_not_judged = of.leaks_not_judged,
                       .sites = largest(trace, of.sites),
                       .leaks = largest(trace, of.leaks),
                       .categories = of.categories});
  return devices;
}

/// What the recorded allocators reserved, by device. As with replays, the heap that reserved most determines the
/// fragmentation of the device.
std::map<std::int32_t, PolicyMetrics> recorded(std::span<const HeapHistory> histories,
                                               std::span<const Prepared> heaps) {
  std::map<std::int32_t, PolicyMetrics> by_device;
  std::map<std::int32_t, Bytes> most;
  for (const HeapHistory& history : histories) {
    const auto heap = std::ranges::find(heaps, history.heap, &Prepared::heap);
    if (heap == heaps.end() || !records_reserved(history, heap->level)) continue;
    PolicyMetrics& metrics =
        by_device.try_emplace(heap->device, PolicyMetrics{std::string(recorded_metrics), heap->device}).first->second;
    metrics.failed_allocations += history.failures;
    if (history.peak_reserved == 0_B) {
      metrics.peak_reserved += history.peak_live;
      continue;
    }
    metrics.peak_reserved += history.peak_reserved;
    if (history.peak_reserved <= most[heap->device]) continue;
    most[heap->device] = history.peak_reserved;
    const Bytes live = std::min(history.live_at_peak_reserved, history.peak_reserved);
    metrics.fragmentation_at_peak =
        1 - static_cast<double>(live.count) / static_cast<double>(history.peak_reserved.count);
  }
  return by_device;
}

}  // namespace

bool records_reserved(const HeapHistory& history, Level level) {
  return history.peak_reserved > 0_B || level == Level::driver;
}

Result<Measured> measure(const Analysis& analysis, std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                         const MeasureOptions& options) {
  const Result<std::vector<ReplayResult>> results = replay(heaps, specs, {.device = options.device});
  if (!results) return results.error();
  Measured measured{.policies = {}, .devices = device_metrics(analysis, heaps, options)};
  for (std::size_t s = 0; s < specs.size(); ++s) {
    std::map<std::int32_t, PolicyMetrics> by_device;
    for (const ReplayResult& r : std::span(*results).subspan(s * heaps.size(), heaps.size())) {
      if (r.defect) return *r.defect;
      PolicyMetrics& metrics = by_device.try_emplace(r.device, PolicyMetrics{specs[s].text(), r.device}).first->second;
      // Of several heaps, the one that reserves most determines the fragmentation of the device.
      if (r.peak_reserved > metrics.peak_reserved || metrics.peak_reserved == 0_B)
        metrics.fragmentation_at_peak = r.fragmentation_at_peak;
      metrics.peak_reserved += r.peak_reserved;
      metrics.failed_allocations += r.failed_allocations;
    }
    for (const auto& [device, metrics] : by_device) measured.policies.push_back(metrics);
  }
  if (options.recorded)
    for (const auto& [device, metrics] : recorded(analysis.histories(), heaps)) measured.policies.push_back(metrics);
  return measured;
}

}  // namespace memreel
