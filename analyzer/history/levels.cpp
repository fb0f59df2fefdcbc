#include "analyzer/history/levels.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace memreel {
namespace {

constexpr std::uint32_t none = 0xFFFF'FFFF;

/// Memory that the driver gave.
struct Region {
  Address begin;
  Bytes size;
  std::uint32_t event = none;     // alloc or segment_map
  std::uint32_t undone = none;    // segment_unmap of a mapping
  std::uint32_t physical = none;  // alloc event of the created memory that is mapped
  HeapId owner = HeapId::none;    // framework's heap that allocates from it
  bool told = false;              // ... and has a segment event of its own for it

  Address end() const { return begin + size; }
};

/// Live regions of one device, which don't overlap.
class Regions {
 public:
  void add(Address begin, std::uint32_t region) { live_[begin] = region; }

  void remove(Address begin) { live_.erase(begin); }

  /// Calls `visit` for every live region that [begin, end) touches.
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

/// Whether the addresses of a pool's events are handles: that of created memory is mapped elsewhere.
bool is_created_memory(const Tables& tables, PoolId pool) { return tables[tables[pool].name] == "physical"; }

class Ties {
 public:
  explicit Ties(const Trace& trace) : trace_(trace), without_segments_(trace.tables.heaps.size(), true) {
    for (std::size_t i = 0; i < trace.events.count(); ++i)
      if (is_segment(trace.events.kind[i])) without_segments_[index(heap_of(i))] = false;
  }

  /// Whether there is anything to tie: a framework's heap and the driver's.
  bool possible() const {
    bool framework = false, driver = false;
    for (std::uint32_t h = 1; h < trace_.tables.heaps.size(); ++h) {
      framework |= trace_.tables.heaps[h].level == Level::framework;
      driver |= trace_.tables.heaps[h].level == Level::driver;
    }
    return framework && driver;
  }

  /// The regions that belong to a framework's heap.
  std::vector<Region> find() {
    for (std::uint32_t i = 0; i < trace_.events.count(); ++i) {
      const Heap& heap = trace_.tables[heap_of(i)];
      if (heap.device < 0) continue;
      if (heap.level == Level::driver)
        note_driver(i, heap.device);
      else if (without_segments_[index(heap_of(i))] ? trace_.events.kind[i] == EventKind::alloc
                                                    : gets_segment(trace_.events.kind[i]))
        note_framework(i, heap.device);
    }
    std::erase_if(regions_, [](const Region& region) { return region.owner == HeapId::none; });
    return std::move(regions_);
  }

 private:
  struct Created {
    std::uint32_t event;
    Bytes size;
  };
  struct Device {
    Regions allocated, mapped;
    std::vector<Created> created;  // and not mapped yet, in order
  };

  HeapId heap_of(std::size_t event) const { return trace_.tables[trace_.events.origin[event]].heap; }

  std::uint32_t add(const Region& region) {
    regions_.push_back(region);
    return static_cast<std::uint32_t>(regions_.size() - 1);
  }

  void note_driver(std::uint32_t i, std::int32_t number) {
    Device& device = devices_[number];
    const Event event = trace_.events[i];
    const bool created = is_created_memory(trace_.tables, trace_.tables[event.origin].pool);
    switch (event.kind) {
      case EventKind::alloc:
        if (created)
          device.created.push_back({i, event.size});
        else
          device.allocated.add(event.address, add({event.address, event.size, i}));
        break;
      case EventKind::free_requested:
        if (!created) device.allocated.remove(event.address);
        break;
      case EventKind::segment_map:
        device.mapped.add(event.address,
                          add({event.address, event.size, i, none, take_created(device.created, event.size)}));
        break;
      case EventKind::segment_unmap: {
        std::vector<Address> gone;
        device.mapped.overlapping(regions_, event.address, event.address + event.size, [&](std::uint32_t region) {
          regions_[region].undone = i;
          gone.push_back(regions_[region].begin);
        });
        for (const Address address : gone) device.mapped.remove(address);
        break;
      }
      default:
        break;
    }
  }

  /// Mappings don't say of what they are. Programs map what they just created.
  static std::uint32_t take_created(std::vector<Created>& created, Bytes size) {
    const auto found = std::find_if(created.rbegin(), created.rend(), [&](const Created& c) { return c.size == size; });
    if (found == created.rend()) return none;
    const std::uint32_t event = found->event;
    created.erase(std::next(found).base());
    return event;
  }

  static bool gets_segment(EventKind kind) {
    return kind == EventKind::segment_alloc || kind == EventKind::segment_map;
  }

  /// What a framework's allocation lies in is its own; what a segment of its is made of, it tells of itself.
  void note_framework(std::uint32_t i, std::int32_t number) {
    const auto device = devices_.find(number);
    if (device == devices_.end()) return;
    const Event event = trace_.events[i];
    const Address end = event.address + event.size;
    const bool tells = gets_segment(event.kind);
    const auto own = [&](std::uint32_t id) {
      Region& region = regions_[id];
      if (tells && (region.begin < event.address || region.end() > end)) return;
      region.owner = heap_of(i);
      region.told = tells;
    };
    device->second.allocated.overlapping(regions_, event.address, end, own);
    device->second.mapped.overlapping(regions_, event.address, end, own);
  }

  const Trace& trace_;
  std::vector<bool> without_segments_;  // by heap
  std::vector<Region> regions_;
  std::map<std::int32_t, Device> devices_;
};

/// What becomes of the events of tied regions.
class Rewriting {
 public:
  Rewriting(Trace& trace, const std::vector<Region>& regions)
      : trace_(trace), owner_(trace.allocation_events.size(), Fate{}) {
    for (const Region& region : regions) {
      if (trace_.events.kind[region.event] == EventKind::alloc) {
        owner_[index(trace_.events.allocation[region.event])] = {.owner = region.owner, .dropped = region.told};
        continue;
      }
      const Fate fate{.owner = region.owner, .dropped = region.told};
      mappings_[region.event] = fate;
      if (region.undone != none) mappings_[region.undone] = fate;
      if (region.physical != none) owner_[index(trace_.events.allocation[region.physical])] = {.dropped = true};
    }
  }

  void run() {
    EventColumns& events = trace_.events;
    EventColumns kept;
    kept.reserve(events.count());
    std::vector<std::uint32_t> allocation_events;
    std::vector<AllocationId> renumbered(owner_.size(), AllocationId::none);
    for (std::uint32_t i = 0; i < events.count(); ++i) {
      Event event = events[i];
      if (event.allocation != AllocationId::none) {
        const Fate fate = owner_[index(event.allocation)];
        if (fate.dropped || (fate.owner != HeapId::none && event.kind == EventKind::free_completed)) continue;
        if (fate.owner != HeapId::none) {
          event.kind = event.kind == EventKind::alloc ? EventKind::segment_alloc : EventKind::segment_free;
          event.origin = origin_in(fate.owner, event.origin);
          event.allocation = AllocationId::none;
        } else {
          AllocationId& id = renumbered[index(event.allocation)];
          if (event.kind == EventKind::alloc) {
            id = AllocationId{static_cast<std::uint32_t>(allocation_events.size())};
            allocation_events.push_back(static_cast<std::uint32_t>(kept.count()));
          }
          event.allocation = id;
        }
      } else if (const auto mapping = mappings_.find(i); mapping != mappings_.end()) {
        if (mapping->second.dropped) continue;
        event.origin = origin_in(mapping->second.owner, event.origin);
      }
      kept.push_back(event);
    }
    events = std::move(kept);
    trace_.allocation_events = std::move(allocation_events);
  }

 private:
  struct Fate {
    HeapId owner = HeapId::none;
    bool dropped = false;
  };

  OriginId origin_in(HeapId heap, OriginId old) {
    const auto [found, is_new] = origins_.try_emplace({heap, old});
    if (is_new) {
      const Origin& origin = trace_.tables[old];
      trace_.tables.origins.push_back({.heap = heap, .stream = origin.stream, .thread = origin.thread});
      found->second = OriginId{static_cast<std::uint32_t>(trace_.tables.origins.size() - 1)};
    }
    return found->second;
  }

  Trace& trace_;
  std::vector<Fate> owner_;                 // by allocation
  std::map<std::uint32_t, Fate> mappings_;  // by event
  std::map<std::pair<HeapId, OriginId>, OriginId> origins_;
};

}  // namespace

std::size_t tie_levels(Trace& trace) {
  Ties ties(trace);
  if (!ties.possible()) return 0;
  const std::vector<Region> regions = ties.find();
  if (!regions.empty()) Rewriting(trace, regions).run();
  return regions.size();
}

}  // namespace memreel
