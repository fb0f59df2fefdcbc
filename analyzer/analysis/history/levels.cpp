// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/levels.h"

#include <algorithm>
#include <functional>

namespace memreel {
namespace {

constexpr std::uint32_t none = 0xFFFF'FFFF;

/// Memory given by the driver.
struct Region {
  Address begin;
  Bytes size;
  std::uint32_t event = none;                    // alloc or segment_map
  AllocationId allocation = AllocationId::none;  // of the alloc
  std::uint32_t undone = none;                   // segment_unmap of a mapping
  AllocationId physical = AllocationId::none;    // the created memory that is mapped
  std::int32_t device = -1;                      // of a mapping
  /// A framework heap that allocates from it, unless its segments identify its memory better.
  struct Claim {
    HeapId heap = HeapId::none;
    std::uint32_t event = none;
    bool told = false;
  };
  std::vector<Claim> claims;

  Address end() const { return begin + size; }
};

/// Live regions of one device, which don't overlap.
class Regions {
 public:
  void add(Address begin, std::uint32_t region) { live_[begin] = region; }

  /// Unless another one has begun there since.
  void remove(Address begin, std::uint32_t region) {
    if (const auto found = live_.find(begin); found != live_.end() && found->second == region) live_.erase(found);
  }

  /// Calls `visit` for every live region that overlaps [begin, end).
  template <class Visit>
  void overlapping(const std::vector<Region>& all, Address begin, Address end, Visit visit) const {
    auto at = live_.upper_bound(begin);
    if (at != live_.begin()) --at;
    for (; at != live_.end() && at->first < end; ++at)
      if (all[at->second].end() > begin) visit(at->second);
  }

 private:
  std::map<Address, std::uint32_t> live_;
};

bool has_heap_of(const Tables& tables, Level level) {
  return std::any_of(tables.heaps.begin() + 1, tables.heaps.end(),
                     [&](const Heap& heap) { return heap.level == level; });
}

}  // namespace

bool is_created_memory(const Tables& tables, PoolId pool) { return tables[tables[pool].name] == "physical"; }

class LevelTies::Impl {
 public:
  explicit Impl(const Tables& tables) : tables_(&tables) {}

  void see(const EventColumns& events, std::uint32_t number) {
    // Without a driver's heap there is nothing to tie yet; which heaps have segments matters once there is one.
    const bool has_driver = has_heap_of(*tables_, Level::driver);
    has_segments_.resize(tables_->heaps.size());
    for (std::size_t i = 0; i < events.count(); ++i, ++number) {
      const EventKind kind = events.kind[i];
      // Most events are frees, of which only the driver's matter, and allocations of heaps with segments.
      if (!is_segment(kind)) {
        const HeapId heap = (*tables_)[events.origin[i]].heap;
        if ((*tables_)[heap].level != Level::driver && (kind != EventKind::alloc || has_segments_[index(heap)]))
          continue;
      }
      if (has_driver || is_segment(kind)) see(events[i], number);
    }
  }

  TiedLevels finish() && {
    TiedLevels ties;
    for (Region& region : regions_) {
      // A heap's allocations claim the regions they lie in only if the heap has no segment events.
      const Region::Claim* last = nullptr;
      for (const Region::Claim& claim : region.claims)
        if (claim.told == has_segments_[index(claim.heap)] && (last == nullptr || claim.event >= last->event))
          last = &claim;
      if (last == nullptr) continue;
      ++ties.count_;
      const TiedLevels::Fate fate{
          .owner = last->heap, .dropped = last->told, .address = region.begin, .size = region.size};
      if (region.allocation != AllocationId::none) {
        ties.add(region.allocation, fate);
        continue;
      }
      ties.mappings_[region.event] = fate;
      if (region.undone != none) ties.mappings_[region.undone] = fate;
      if (region.physical != AllocationId::none)
        ties.add(region.physical, {.dropped = true});
      else
        for (const Created& piece : take_pieces(devices_[region.device].created, region.size))
          ties.add(piece.allocation, {.dropped = true});
    }
    return ties;
  }

 private:
  struct Created {
    AllocationId allocation;
    Bytes size;
  };
  struct Device {
    Regions allocated, mapped;
    std::vector<Created> created;  // not mapped yet, in order
  };

  void see(const Event& event, std::uint32_t number) {
    const HeapId id = (*tables_)[event.origin].heap;
    const Heap& heap = (*tables_)[id];
    if (is_segment(event.kind)) has_segments_[index(id)] = true;
    if (heap.device < 0) return;
    if (heap.level == Level::driver)
      note_driver(event, number, heap.device);
    else if (has_segments_[index(id)] ? gets_segment(event.kind) : event.kind == EventKind::alloc)
      note_framework(event, number, id, heap.device);
  }

  std::uint32_t add(const Region& region) {
    if (unused_.empty()) {
      regions_.push_back(region);
      return static_cast<std::uint32_t>(regions_.size() - 1);
    }
    const std::uint32_t row = unused_.back();
    unused_.pop_back();
    regions_[row] = region;
    return row;
  }

  /// Memory that nothing was allocated from while it existed stays the driver's.
  void forget_unclaimed(std::uint32_t region) {
    if (regions_[region].claims.empty()) unused_.push_back(region);
  }

  void note_driver(const Event& event, std::uint32_t number, std::int32_t of_device) {
    Device& device = devices_[of_device];
    const bool created = is_created_memory(*tables_, (*tables_)[event.origin].pool);
    switch (event.kind) {
      case EventKind::alloc:
        if (created) {
          device.created.push_back({event.allocation, event.size});
          break;
        }
        {
          const std::uint32_t region =
              add({.begin = event.address, .size = event.size, .event = number, .allocation = event.allocation});
          live_.put(event.allocation, region);
          device.allocated.add(event.address, region);
        }
        break;
      case EventKind::free_requested:
        if (created) break;
        if (const std::uint32_t region = live_.erase(event.allocation); region != absent) {
          device.allocated.remove(regions_[region].begin, region);
          forget_unclaimed(region);
        }
        break;
      case EventKind::segment_map:
        device.mapped.add(event.address, add({.begin = event.address,
                                              .size = event.size,
                                              .event = number,
                                              .physical = take_created(device.created, event.size),
                                              .device = of_device}));
        break;
      case EventKind::segment_unmap: {
        std::vector<std::uint32_t> gone;
        device.mapped.overlapping(regions_, event.address, event.address + event.size, [&](std::uint32_t region) {
          regions_[region].undone = number;
          gone.push_back(region);
        });
        for (const std::uint32_t region : gone) {
          device.mapped.remove(regions_[region].begin, region);
          forget_unclaimed(region);
        }
        break;
      }
      default:
        break;
    }
  }

  /// Mappings don't name their memory. Programs map what they just created.
  static AllocationId take_created(std::vector<Created>& created, Bytes size) {
    const auto found = std::find_if(created.rbegin(), created.rend(), [&](const Created& c) { return c.size == size; });
    if (found == created.rend()) return AllocationId::none;
    const AllocationId allocation = found->allocation;
    created.erase(std::next(found).base());
    return allocation;
  }

  /// Adjacent mappings are one where a flight recorder's trace begins. Those of an expandable segment have one size:
  /// the largest of which enough created pieces are left that no mapping names. None if none is.
  static std::vector<Created> take_pieces(std::vector<Created>& created, Bytes size) {
    std::map<Bytes, std::uint64_t, std::greater<>> counts;
    for (const Created& piece : created) ++counts[piece.size];
    const auto fits = std::ranges::find_if(counts, [&](const auto& of) {
      return of.first > 0_B && size.count % of.first.count == 0 && of.second >= size.count / of.first.count;
    });
    std::vector<Created> taken;
    if (fits == counts.end()) return taken;
    std::erase_if(created, [&](const Created& piece) {
      const bool takes = piece.size == fits->first && taken.size() < size.count / fits->first.count;
      if (takes) taken.push_back(piece);
      return takes;
    });
    return taken;
  }

  static bool gets_segment(EventKind kind) {
    return kind == EventKind::segment_alloc || kind == EventKind::segment_map;
  }

  /// The regions that a framework's allocation lies in belong to the framework; its segments are reported by the
  /// framework itself.
  void note_framework(const Event& event, std::uint32_t number, HeapId heap, std::int32_t of_device) {
    const auto device = devices_.find(of_device);
    if (device == devices_.end()) return;
    const Address end = event.address + event.size;
    const bool told = gets_segment(event.kind);
    const auto own = [&](std::uint32_t id) {
      Region& region = regions_[id];
      if (told && (region.begin < event.address || region.end() > end)) return;
      for (Region::Claim& claim : region.claims) {
        if (claim.heap != heap || claim.told != told) continue;
        claim.event = number;
        return;
      }
      region.claims.push_back({.heap = heap, .event = number, .told = told});
    };
    device->second.allocated.overlapping(regions_, event.address, end, own);
    device->second.mapped.overlapping(regions_, event.address, end, own);
  }

  const Tables* tables_;
  std::vector<bool> has_segments_;  // by heap
  std::vector<Region> regions_;
  std::vector<std::uint32_t> unused_;           // free rows of regions_
  FlatMap<AllocationId, AllocationHash> live_;  // rows of regions_
  std::map<std::int32_t, Device> devices_;
};

LevelTies::LevelTies(const Tables& tables) : impl_(std::make_unique<Impl>(tables)) {}
LevelTies::LevelTies(LevelTies&&) noexcept = default;
LevelTies& LevelTies::operator=(LevelTies&&) noexcept = default;
LevelTies::~LevelTies() = default;
void LevelTies::see(const EventColumns& events, std::uint32_t number) { impl_->see(events, number); }
TiedLevels LevelTies::finish() && { return std::move(*impl_).finish(); }

void TiedLevels::add(AllocationId allocation, const Fate& fate) {
  of_allocation_.put(allocation, static_cast<std::uint32_t>(fates_.size()));
  fates_.push_back(fate);
}

template <class OriginIn>
bool TiedLevels::rewrite(Event& event, std::uint32_t number, const OriginIn& origin_in) const {
  if (event.allocation != AllocationId::none) {
    const std::uint32_t row = of_allocation_.find(event.allocation);
    if (row == absent) return true;
    const Fate& fate = fates_[row];
    if (fate.dropped || event.kind == EventKind::free_completed) return false;
    event.kind = event.kind == EventKind::alloc ? EventKind::segment_alloc : EventKind::segment_free;
    event.origin = origin_in(fate.owner, event.origin);
    event.allocation = AllocationId::none;
    event.address = fate.address;
    event.size = fate.size;
  } else if (const auto mapping = mappings_.find(number); mapping != mappings_.end()) {
    if (mapping->second.dropped) return false;
    event.origin = origin_in(mapping->second.owner, event.origin);
  }
  return true;
}

bool TiedLevels::rewrite(Event& event, std::uint32_t number, Tables& tables) {
  return rewrite(event, number, [&](HeapId heap, OriginId old) {
    const auto [found, is_new] = origins_.try_emplace({heap, old});
    if (is_new) {
      const Origin& origin = tables[old];
      tables.origins.push_back({.heap = heap, .stream = origin.stream, .thread = origin.thread});
      found->second = OriginId{static_cast<std::uint32_t>(tables.origins.size() - 1)};
    }
    return found->second;
  });
}

void TiedLevels::rewrite(Trace& trace) {
  const Events old = std::exchange(trace.events, {});
  std::vector<AllocationId> renumbered(old.allocation_count(), AllocationId::none);
  for (std::uint32_t i = 0; i < old.count(); ++i) {
    Event event = old[i];
    if (!rewrite(event, i, trace.tables)) continue;
    if (event.allocation != AllocationId::none) {
      AllocationId& id = renumbered[index(event.allocation)];
      if (event.kind == EventKind::alloc) id = AllocationId(trace.events.allocation_count());
      event.allocation = id;
    }
    trace.events.push_back(event);
  }
  trace.events.pack();
}

bool TiedLevels::rewrite_again(Event& event, std::uint32_t number) const {
  return rewrite(event, number, [&](HeapId heap, OriginId old) { return origins_.at({heap, old}); });
}

std::size_t tie_levels(Trace& trace) {
  if (!has_heap_of(trace.tables, Level::framework) || !has_heap_of(trace.tables, Level::driver)) return 0;
  LevelTies finder(trace.tables);
  trace.events.for_each_block([&](const EventColumns& block, std::uint32_t first) { finder.see(block, first); });
  TiedLevels ties = std::move(finder).finish();
  if (ties.count() == 0) return 0;
  ties.rewrite(trace);
  return ties.count();
}

}  // namespace memreel
