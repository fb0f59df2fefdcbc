// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/fragmentation.h"

#include <algorithm>
#include <bit>
#include <map>

#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/own_frame.h"

namespace memreel {
namespace {

FragmentationPoint point_of(const Trace& trace, const HeapMap& map) {
  return {.events = map.events,
          .time = map.events == 0 ? Nanoseconds{} : trace.events.time(map.events - 1),
          .reserved = map.reserved,
          .allocated = map.live,
          .requested = map.requested,
          .pending = map.pending,
          .largest_free = map.largest_free(),
          .unreleasable = map.unreleasable};
}

/// Finds pinned segments, and what pins them.
class PinFinder {
 public:
  explicit PinFinder(const Trace& trace)
      : sites_(trace.tables, [&trace](AllocationId id) { return trace.events.stack(trace.events.begin_of(id)); }) {}

  void add(const HeapMap& map, const HeapSegment& segment) {
    sites_.add(map, segment);
    PinnedSegment pinned{.segment = segment};
    for (const HeapBlock& block : map.blocks_of(segment)) {
      if (block.use == BlockUse::free) continue;
      ++pinned.pin_count;
      pinned.pins.push_back(block.allocation);
    }
    // Ids are in order of birth.
    const auto named = std::min(PinnedSegment::most_pins, pinned.pins.size());
    std::ranges::partial_sort(pinned.pins, pinned.pins.begin() + static_cast<std::ptrdiff_t>(named));
    pinned.pins.resize(named);
    pinned_.push_back(std::move(pinned));
  }

  void finish(Fragmentation& found) && {
    std::ranges::stable_sort(pinned_, std::ranges::greater{},
                             [](const PinnedSegment& pinned) { return pinned.segment.unreleasable; });
    found.pinned = std::move(pinned_);
    found.sites = std::move(sites_).sorted();
  }

 private:
  std::vector<PinnedSegment> pinned_;
  PinningSites sites_;
};

void find_pins(const Trace& trace, const HeapMap& map, Fragmentation& found) {
  PinFinder finder(trace);
  for (const HeapSegment& segment : map.segments)
    if (segment.unreleasable > 0_B) finder.add(map, segment);
  std::move(finder).finish(found);
}

AwaitingSite awaiting_in(const Trace& trace, const HeapMap& map) {
  std::map<std::string, AwaitingSite> sites;
  for (const HeapSegment& segment : map.segments)
    for (const HeapBlock& block : map.blocks_of(segment)) {
      if (block.use != BlockUse::pending) continue;
      std::string label = site_label(trace.tables, trace.events.stack(trace.events.begin_of(block.allocation)));
      AwaitingSite& site = sites[label];
      site.label = std::move(label);
      site.bytes += block.size;
      site.stream = segment.pool_stream.stream;
    }
  AwaitingSite most;
  for (auto& [label, site] : sites)
    if (site.bytes > most.bytes) most = std::move(site);
  return most;
}

std::vector<SizeClass> size_classes_of(const HeapMap& map) {
  std::map<std::uint64_t, SizeClass> classes;
  for (const HeapBlock& block : map.blocks) {
    if (block.use != BlockUse::live) continue;
    SizeClass& entry = classes[std::bit_width(block.requested.count)];
    entry.least = {block.requested == 0_B ? 0 : std::bit_floor(block.requested.count)};
    ++entry.count;
    entry.requested += std::min(block.requested, block.size);
    entry.allocated += block.size;
  }
  std::vector<SizeClass> result;
  for (auto& [width, entry] : classes) result.push_back(entry);
  std::ranges::stable_sort(result, std::ranges::greater{}, &SizeClass::waste);
  return result;
}

/// The first allocation of `heap` at or after an event.
std::uint64_t next_allocation(const Trace& trace, HeapId heap, std::uint64_t event) {
  const auto begins = trace.events.begins();
  for (auto at = std::ranges::lower_bound(begins, event); at != begins.end(); ++at)
    if (trace.tables[trace.events.origin(*at)].heap == heap) return *at;
  return event;
}

PeakRequest growth_at(const Trace& trace, const HeapMap& map, std::uint64_t event) {
  const Origin& origin = trace.tables[trace.events.origin(event)];
  PeakRequest growth{.event = event,
                     .stack = trace.events.stack(event),
                     .pool_stream = {.pool = origin.pool, .stream = origin.stream},
                     .requested = trace.events.size(event)};
  if (trace.events.kind(event) != EventKind::alloc) return growth;
  growth.pool_stream.small = is_torch_heap(trace.tables, map.heap) && TorchSettings::is_small(growth.requested);
  const Stranded stranded = stranded_for(map, growth.pool_stream, growth.requested);
  growth.stranded_stream = stranded.other_streams;
  growth.stranded_pool = stranded.other_pools;
  return growth;
}

/// Analyzes a heap at the chosen moment.
void look_closely(const Trace& trace, const HeapMap& map, const FragmentationPoint& point, Fragmentation& found) {
  found.at_peak = point;
  find_pins(trace, map, found);
  found.pool_streams = pool_streams_of(map);
  found.awaiting = awaiting_in(trace, map);
  found.size_classes = size_classes_of(map);
}

/// What is known of a heap before its maps are built.
struct Plan {
  Fragmentation found;
  std::uint64_t peak = 0;               // number of events at which to look closely
  std::uint64_t start = 0;              // number of events that stand for what was there when the recording began
  std::optional<std::uint64_t> growth;  // event of the request for which the peak was reserved

  /// How many events precede its second moment.
  std::uint64_t before_peak() const { return growth ? *growth + 1 : start; }
};

/// The heap whose state an event changes.
HeapId heap_of(const Trace& trace, const Event& event) {
  const bool frees = is_free(event.kind) && event.allocation != AllocationId::none;
  return trace.tables[frees ? trace.events.origin_of(event.allocation) : event.origin].heap;
}

void look_at(const Trace& trace, const RecordedBlocks& blocks, const HeapSnapshot& snapshot, Plan& plan) {
  const HeapMap map = heap_map(trace.tables, snapshot, plan.found.heap, blocks);
  const FragmentationPoint point = point_of(trace, map);
  plan.found.over_time.push_back(point);
  if (plan.found.worst.events == 0 || point.unreleasable > plan.found.worst.unreleasable) plan.found.worst = point;
  if (plan.growth && snapshot.event == *plan.growth + 1) plan.found.growth = growth_at(trace, map, *plan.growth);
  if (snapshot.event == plan.start) plan.found.at_start = point;
  if (snapshot.event == plan.peak) look_closely(trace, map, point, plan.found);
}

/// The last event of the allocations that existed when the recording began: they are written one by one but existed
/// together; 0 if there were none.
std::uint64_t end_of_preexisting(const Trace& trace, HeapId heap) {
  std::uint64_t last = 0;
  if (trace.losses.preexisting_allocations == 0) return last;
  for (const std::uint32_t event : trace.events.begins())
    if (trace.tables[trace.events.origin(event)].heap == heap &&
        is_preexisting(trace.tables, trace.events.stack(event)))
      last = event;
  return last;
}

/// Whether a recording of one instant goes on with nothing but the end of what was awaiting free then: the instant is
/// that of its last event.
bool only_completes(const Trace& trace, HeapId heap, std::uint64_t before) {
  if (!is_instant(trace) || before == 0) return false;
  for (std::uint64_t i = before + 1; i < trace.events.count(); ++i) {
    const Event event = trace.events[i];
    const bool is_of_older = i == before + 1 && event.allocation == trace.events.allocation(before);
    if (heap_of(trace, event) == heap && !is_of_older &&
        (event.kind == EventKind::free_requested || is_segment(event.kind)))
      return false;
  }
  return true;
}

std::vector<Plan> plans_for(const Trace& trace, std::span<const HeapHistory> histories) {
  std::vector<Plan> plans;
  for (const HeapHistory& history : histories) {
    if (history.peak_reserved == 0_B || history.is_sampled || history.allocations == 0) continue;
    Plan& plan = plans.emplace_back();
    plan.found.heap = history.heap;
    const std::uint64_t before = end_of_preexisting(trace, history.heap);
    plan.peak = only_completes(trace, history.heap, before) ? trace.events.count()
                                                            : 1 + std::max(history.peak_reserved_event, before);
    if (inherits_peak(trace, history))
      plan.start = 1 + std::max(history.peak_growth_event, before);
    else
      plan.growth = next_allocation(trace, history.heap, history.peak_growth_event);
  }
  return plans;
}

}  // namespace

std::vector<ReservedPart> parts_of(const FragmentationPoint& point) {
  std::vector<ReservedPart> parts{
      {point.requested, "live, as requested"},
      {point.allocated - std::min(point.requested, point.allocated), "rounding and unsplit remainders"},
      {point.pending, "awaiting free: freed, but still used by another stream"},
      {point.unreleasable, "unreleasable: free, in a segment with active blocks"},
      {point.free() - point.unreleasable, "free, in segments that could have been released"}};
  std::erase_if(parts, [](const ReservedPart& part) { return part.bytes == 0_B; });
  return parts;
}

double FragmentationPoint::fragmentation() const {
  return reserved == 0_B ? 0 : 1 - static_cast<double>(allocated.count) / static_cast<double>(reserved.count);
}

std::vector<Fragmentation> find_fragmentation(const Trace& trace, std::span<const HeapHistory> histories,
                                              std::span<const Lifetime> lives, const RecordedBlocks& blocks,
                                              std::size_t points) {
  if (trace.header.source == sums_source) return {};
  std::vector<Plan> plans = plans_for(trace, histories);
  if (plans.empty()) return {};
  // Each heap is followed by itself: a moment of one costs what that one holds, whatever the others do.
  using Moment = std::pair<std::uint64_t, std::size_t>;  // events, number of the plan
  const std::uint64_t count = trace.events.count();
  std::vector<Moment> moments;
  std::vector<LiveSet> live(plans.size(), LiveSet(trace.tables));
  std::vector<std::size_t> plan_of(trace.tables.heaps.size(), plans.size());  // by heap
  for (std::size_t p = 0; p < plans.size(); ++p) {
    plan_of[index(plans[p].found.heap)] = p;
    for (std::size_t i = 1; i <= points; ++i) moments.emplace_back(count * i / points, p);
    moments.emplace_back(std::min(plans[p].peak, count), p);
    moments.emplace_back(std::min(plans[p].before_peak(), count), p);
  }
  std::ranges::sort(moments);
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  auto next = moments.begin();
  const auto look_after = [&](std::uint64_t events) {
    for (; next != moments.end() && next->first == events; ++next) {
      HeapSnapshot snapshot = live[next->second].snapshot();
      snapshot.event = events;
      look_at(trace, blocks, snapshot, plans[next->second]);
    }
  };
  look_after(0);
  // Most allocations end before anybody looks. They change nothing else, unless they end an older one at their address.
  std::vector<bool> passes(lives.size());
  const auto ends_unseen = [&](const Event& event, HeapId heap, const LiveSet& in) {
    const Lifetime& life = lives[index(event.allocation)];
    const std::uint32_t end = trace.tables[heap].observes_completion ? life.completed : life.requested;
    return end != never && (next == moments.end() || end < next->first) &&
           in.at(heap, event.address) == AllocationId::none;
  };
  trace.events.for_each<event_field::all & ~event_field::time>([&](std::uint32_t i, Event event) {
    const HeapId heap = heap_of(trace, event);
    if (const std::size_t changed = plan_of[index(heap)]; changed != plans.size()) {
      const bool known = event.allocation != AllocationId::none;
      if (event.kind == EventKind::alloc && known)
        passes[index(event.allocation)] = ends_unseen(event, heap, live[changed]);
      if (!known || !passes[index(event.allocation)]) live[changed].apply(event);
    }
    look_after(std::uint64_t{i} + 1);
  });
  std::vector<Fragmentation> result;
  for (Plan& plan : plans) result.push_back(std::move(plan.found));
  if (has_history(trace)) return result;
  // The events of one instant are in no order of the program.
  for (Fragmentation& found : result) {
    found.growth.reset();
    found.over_time.clear();
    found.worst = found.at_peak;
    for (PinningSite& site : found.sites) site.label = label_in(trace, std::move(site.label));
  }
  return result;
}

std::optional<Fragmentation> fragmentation_at(const Trace& trace, const RecordedBlocks& blocks, HeapId heap,
                                              std::uint64_t event) {
  if (event >= trace.events.count()) return std::nullopt;
  const std::uint64_t request = next_allocation(trace, heap, event);
  Fragmentation found{.heap = heap};
  for_each_snapshot(trace, std::vector{request + 1}, [&](const HeapSnapshot& snapshot) {
    const HeapMap map = heap_map(trace.tables, snapshot, heap, blocks);
    const FragmentationPoint point = point_of(trace, map);
    found.over_time = {point};
    found.worst = point;
    look_closely(trace, map, point, found);
    found.growth = growth_at(trace, map, request);
  });
  if (found.at_peak.reserved == 0_B || found.at_peak.events == 0) return std::nullopt;
  return found;
}

void PinningSites::add(const HeapMap& map, const HeapSegment& segment) {
  std::vector<std::size_t> here;
  for (const HeapBlock& block : map.blocks_of(segment)) {
    if (block.use == BlockUse::free) continue;
    const std::size_t site = number_of(block.allocation);
    ++sites_[site].blocks;
    sites_[site].bytes += block.size;
    if (std::ranges::find(here, site) == here.end()) here.push_back(site);
  }
  for (const std::size_t site : here) {
    ++sites_[site].segments;
    sites_[site].unreleasable += segment.unreleasable;
    if (here.size() == 1) sites_[site].alone += segment.unreleasable;
  }
}

std::size_t PinningSites::number_of(AllocationId id) {
  const StackId stack = stack_of_(id);
  const auto [known, is_new] = by_stack_.try_emplace(index(stack), sites_.size());
  if (!is_new) return known->second;
  std::string label = site_label(tables_, stack);
  known->second = by_label_.try_emplace(label, sites_.size()).first->second;
  if (known->second == sites_.size()) sites_.push_back({.label = std::move(label), .stack = stack});
  return known->second;
}

std::vector<PinningSite> PinningSites::sorted() && {
  std::ranges::stable_sort(sites_, std::ranges::greater{},
                           [](const PinningSite& site) { return std::pair(site.alone, site.unreleasable); });
  return std::move(sites_);
}

Bytes largest_request(const TorchSettings& settings, bool small, Bytes free) {
  const Bytes most = small ? std::min(free, TorchSettings::max_small) : free;
  const auto serves = [&](std::uint64_t requested) {
    const Bytes rounded = settings.round(Bytes{requested});
    return rounded <= most && TorchSettings::is_small(rounded) == small;
  };
  // What a request is rounded to grows with it: in between, those that fit come first.
  std::uint64_t fits = small ? 0 : TorchSettings::max_small.count, beyond = most.count + 1;
  while (fits + 1 < beyond) {
    const std::uint64_t middle = fits + (beyond - fits) / 2;
    (settings.round(Bytes{middle}) <= most ? fits : beyond) = middle;
  }
  return serves(fits) ? Bytes{fits} : 0_B;
}

}  // namespace memreel
