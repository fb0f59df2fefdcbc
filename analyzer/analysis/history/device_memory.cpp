// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/history/device_memory.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "analyzer/analysis/history/levels.h"

namespace memreel {
namespace {

/// What the tables and the kinds of its events say of a heap.
struct HeapTraits {
  std::int32_t device = 0;
  bool is_driver = false;
  bool has_memory = false;    // events of memory, or requests
  bool has_segments = false;  // of a framework's heap
  bool has_allocations = false;
  bool is_mapped = false;  // some of its segments
  bool is_around = false;  // heaps of frameworks are inside
  std::uint32_t depth = 0;
};

/// What the ledger tells apart: heaps, and parts of the driver's heaps, which have numbers after those of all heaps.
struct Layout {
  std::vector<HeapTraits> traits;                  // of heaps, then of parts
  std::vector<HeapId> of_origin;                   // the heap, or the part, of an event with this origin
  std::vector<char> is_created;                    // by origin: its allocations create memory to be mapped
  std::vector<DriverPart> parts;                   // in the order of their numbers
  std::vector<std::vector<HeapId>> own_and_parts;  // of each heap

  explicit Layout(const Trace& trace);

  HeapId number_of(const DriverPart& part) const { return numbers_.at({part.heap, part.pool}); }

 private:
  std::map<std::pair<HeapId, PoolId>, HeapId> numbers_;  // of parts
};

std::vector<HeapTraits> traits_of(const Trace& trace) {
  const std::vector<Heap>& heaps = trace.tables.heaps;
  std::vector<HeapTraits> traits(heaps.size());
  for (std::size_t h = 0; h < heaps.size(); ++h) {
    traits[h].device = heaps[h].device;
    traits[h].is_driver = heaps[h].level == Level::driver;
  }
  std::vector<EventKinds> kinds(trace.tables.origins.size());  // by origin
  trace.events.for_each<event_field::origin>(
      [&](std::uint32_t, const Event& event) { kinds[index(event.origin)].add(event.kind); });
  for (std::size_t origin = 0; origin < kinds.size(); ++origin) {
    HeapTraits& of = traits[index(trace.tables.origins[origin].heap)];
    for (const EventKind kind : {EventKind::alloc, EventKind::alloc_failed, EventKind::segment_alloc,
                                 EventKind::segment_free, EventKind::segment_map, EventKind::segment_unmap}) {
      if (!kinds[origin].contains(kind)) continue;
      of.has_memory = true;
      of.has_allocations |= kind == EventKind::alloc;
      of.has_segments |= !of.is_driver && is_segment(kind);
      of.is_mapped |= kind == EventKind::segment_map;
    }
  }
  for (std::size_t h = 1; h < heaps.size(); ++h) {
    if (traits[h].is_driver) {
      for (const HeapTraits& other : traits)
        traits[h].is_around |= !other.is_driver && other.has_memory && other.device == traits[h].device;
      continue;
    }
    traits[h].depth = 1;
    // Parents come first in the table; a damaged file may say otherwise.
    for (HeapId at = heaps[h].parent; at != HeapId::none && traits[h].depth < heaps.size();
         at = heaps[index(at)].parent) {
      if (traits[index(at)].is_driver) continue;
      ++traits[h].depth;
      if (traits[h].has_memory && traits[index(at)].device == traits[h].device) traits[index(at)].is_around = true;
    }
  }
  return traits;
}

Layout::Layout(const Trace& trace) : traits(traits_of(trace)) {
  const Tables& tables = trace.tables;
  own_and_parts.resize(traits.size());
  for (std::uint32_t h = 0; h < own_and_parts.size(); ++h) own_and_parts[h] = {HeapId{h}};
  for (const Origin& origin : tables.origins) {
    HeapId number = origin.heap;
    if (const HeapTraits of = traits[index(number)]; of.is_driver && origin.pool != PoolId::default_pool) {
      const auto [found, is_new] = numbers_.try_emplace({origin.heap, origin.pool}, HeapId{});
      if (is_new) {
        found->second = HeapId{static_cast<std::uint32_t>(traits.size())};
        traits.push_back(of);
        own_and_parts[index(origin.heap)].push_back(found->second);
        parts.push_back(
            {.heap = origin.heap, .pool = origin.pool, .is_mapped = is_created_memory(tables, origin.pool)});
      }
      number = found->second;
    }
    of_origin.push_back(number);
    is_created.push_back(is_created_memory(tables, origin.pool) ? 1 : 0);
  }
}

/// One device, event by event. Where several heaps may have the same memory, it knows who covers each address.
class DeviceLedger {
 public:
  explicit DeviceLedger(const Layout& layout)
      : layout_(&layout),
        held_(layout.traits.size()),
        live_(layout.traits.size()),
        covered_(layout.traits.size()),
        around_(layout.traits.size(), HeapId::none) {}

  void add_heap() { ++heaps_; }
  /// Holds nothing from now on.
  void forget() {
    DeviceLedger empty(*layout_);
    empty.heaps_ = heaps_;
    empty.around_ = std::move(around_);
    *this = std::move(empty);
  }

  void see(const Event& event, HeapId heap, bool is_created_memory) {
    const bool is_more = event.kind == EventKind::alloc;
    if (is_more || event.kind == EventKind::free_requested) {
      if (is_more || event.allocation != AllocationId::none) allocation(event, heap, is_more, is_created_memory);
    } else if (is_segment(event.kind)) {
      segment(event, heap);
    }
  }

  /// Whether all of the device's memory is that of one heap, which has no parts.
  bool is_one_heap() const { return heaps_ == 1 && layout_->parts.empty(); }
  Bytes held() const { return all_held_ - backed(); }
  Bytes live() const { return all_live_ - backed(); }
  /// What the heap adds to the device.
  Bytes held(HeapId heap) const {
    Bytes sum;
    for (const HeapId part : layout_->own_and_parts[index(heap)]) sum += held_of_part(part);
    return sum;
  }
  Bytes live(HeapId heap) const {
    Bytes sum;
    for (const HeapId part : layout_->own_and_parts[index(heap)])
      sum += live_[index(part)] - (part == creator_ ? backed() : 0_B);
    return sum;
  }
  /// The same of a part of the driver's heap, or of what is in none of them.
  Bytes held_of_part(HeapId part) const { return held_[index(part)] - (part == creator_ ? backed() : 0_B); }
  /// Memory of the heap, also inside other heaps; the driver's is all that the device holds.
  Bytes covered(HeapId heap) const {
    if (of(heap).is_driver) return held();
    return heaps_ > 1 ? covered_[index(heap)] : held_[index(heap)];
  }
  /// The framework's heap in whose memory the first of this one's was that lies in any; none: in no other's.
  HeapId around(HeapId heap) const { return around_[index(heap)]; }

 private:
  struct Cover {
    HeapId heap = HeapId::none;
    std::uint32_t allocations = 0;
    bool segment = false;  // of the driver's heap: a mapping of created memory
  };
  /// From its address to the next cell's, the same heaps have it: outer ones first.
  using Cell = std::vector<Cover>;

  const HeapTraits& of(HeapId heap) const { return layout_->traits[index(heap)]; }

  /// Whether its allocations may be memory of other heaps: only then are their addresses looked at.
  bool has_addresses(HeapId heap) const { return heaps_ > 1 && (of(heap).is_around || !of(heap).has_segments); }

  void allocation(const Event& event, HeapId heap, bool is_more, bool is_created_memory) {
    if (is_created_memory) {
      creator_ = heap;
      created_ = changed(created_, event.size, is_more);
      change_live(heap, event.size, is_more);
      change_held(heap, event.size, is_more);
    } else if (has_addresses(heap)) {
      cover(event.address, event.size, heap, [&](Cover& cover) {
        if (is_more)
          ++cover.allocations;
        else if (cover.allocations > 0)
          --cover.allocations;
      });
    } else {
      change_live(heap, event.size, is_more);
      if (!of(heap).has_segments) change_held(heap, event.size, is_more);
    }
  }

  void segment(const Event& event, HeapId heap) {
    const bool is_more = event.kind == EventKind::segment_alloc || event.kind == EventKind::segment_map;
    if (heaps_ > 1)
      cover(event.address, event.size, heap, [&](Cover& cover) { cover.segment = is_more; });
    else if (!of(heap).is_driver)  // its mappings are of memory that was created
      change_held(heap, event.size, is_more);
  }

  /// Late recordings may lack what is released.
  static Bytes changed(Bytes total, Bytes by, bool is_more) {
    return is_more ? total + by : total - std::min(total, by);
  }

  void change_held(HeapId heap, Bytes by, bool is_more) {
    const Bytes before = held_[index(heap)];
    held_[index(heap)] = changed(before, by, is_more);
    all_held_ = all_held_ - before + held_[index(heap)];
  }
  void change_live(HeapId heap, Bytes by, bool is_more) {
    const Bytes before = live_[index(heap)];
    live_[index(heap)] = changed(before, by, is_more);
    all_live_ = all_live_ - before + live_[index(heap)];
  }

  /// Created memory that is mapped where a pool's segments are. What was mapped but not created is another process's.
  Bytes backed() const { return std::min(created_, mapped_by_pools_); }

  /// Adds the bytes of a cell to the heaps that they are of, or takes them away.
  void count(const Cell& cell, Bytes size, bool is_more) {
    const Cover *holder = nullptr, *driver = nullptr, *user = nullptr;
    bool is_mapped = false;
    for (const Cover& cover : cell) {
      if (of(cover.heap).is_driver) {
        if (cover.allocations > 0) driver = user = &cover;
        is_mapped |= cover.segment;
        continue;
      }
      if (cover.segment || !of(cover.heap).has_segments) {
        covered_[index(cover.heap)] = changed(covered_[index(cover.heap)], size, is_more);
        if (holder == nullptr) holder = &cover;
      }
      if (cover.segment) user = nullptr;  // what is around it is not in use itself, but as this pool's memory
      if (cover.allocations > 0) user = &cover;
    }
    if (holder != nullptr && driver == nullptr && is_mapped)
      mapped_by_pools_ = changed(mapped_by_pools_, size, is_more);
    if (holder == nullptr) holder = driver;
    if (holder != nullptr) change_held(holder->heap, size, is_more);
    if (user != nullptr) change_live(user->heap, size, is_more);
  }

  /// The cell that begins at `address`.
  std::map<Address, Cell>::iterator split(Address address) {
    const auto next = cells_.upper_bound(address);
    if (next == cells_.begin()) return cells_.emplace(address, Cell{}).first;
    const auto at = std::prev(next);
    return at->first == address ? at : cells_.emplace_hint(next, address, at->second);
  }

  template <class Change>
  void cover(Address begin, Bytes size, HeapId heap, Change change) {
    if (size == 0_B || begin + size < begin) return;
    const auto end = split(begin + size);
    const auto first = split(begin);
    for (auto cell = first; cell != end;) {
      const auto next = std::next(cell);
      const Bytes bytes = next->first - cell->first;
      count(cell->second, bytes, false);
      const auto same = std::ranges::find(cell->second, heap, &Cover::heap);
      if (same != cell->second.end()) {
        change(*same);
        if (same->allocations == 0 && !same->segment) cell->second.erase(same);
      } else if (Cover added{.heap = heap}; change(added), added.allocations > 0 || added.segment) {
        const auto deeper = std::ranges::find_if(
            cell->second, [&](const Cover& other) { return of(other.heap).depth > of(heap).depth; });
        const auto place = cell->second.insert(deeper, added);
        if (HeapId& outer = around_[index(heap)]; outer == HeapId::none && place != cell->second.begin())
          if (const HeapId before = std::prev(place)->heap; !of(before).is_driver) outer = before;
      }
      count(cell->second, bytes, true);
      cell = next;
    }
    drop_empty(first, end);
  }

  /// Removes cells without heaps that follow such cells.
  void drop_empty(std::map<Address, Cell>::iterator first, std::map<Address, Cell>::iterator last) {
    ++last;
    for (auto cell = first; cell != last;) {
      const bool is_redundant = cell->second.empty() && (cell == cells_.begin() || std::prev(cell)->second.empty());
      cell = is_redundant ? cells_.erase(cell) : std::next(cell);
    }
  }

  const Layout* layout_;
  std::vector<Bytes> held_, live_, covered_;  // by heap; of created memory, with what pools have mapped
  std::vector<HeapId> around_;
  Bytes all_held_, all_live_;
  Bytes created_, mapped_by_pools_;
  HeapId creator_ = HeapId::none;  // the part of the driver's heap that has it
  std::size_t heaps_ = 0;
  std::map<Address, Cell> cells_;  // the last one is empty
};

enum class Of : std::uint8_t { held, held_and_live };

/// Calls `after` with each device and the number of the event after each event that concerns its memory. With
/// `Of::held`, not after those that change only what is live, which is then unknown.
template <class After>
void for_each_instant(const Trace& trace, const Layout& layout, Of what, After after) {
  const std::vector<HeapTraits>& traits = layout.traits;
  std::map<std::int32_t, DeviceLedger> ledgers;
  std::vector<DeviceLedger*> of_heap(trace.tables.heaps.size());
  for (std::size_t h = 0; h < of_heap.size(); ++h) {
    if (!traits[h].has_memory) continue;
    of_heap[h] = &ledgers.try_emplace(traits[h].device, layout).first->second;
    of_heap[h]->add_heap();
  }
  const Events& events = trace.events;
  std::vector<char> only_live(trace.tables.origins.size());  // by origin: its allocations are of segments, which count
  for (std::size_t o = 0; o < only_live.size(); ++o) {
    const HeapTraits& of = traits[index(trace.tables.origins[o].heap)];
    only_live[o] = what == Of::held && !of.is_driver && of.has_segments && !of.is_around ? 1 : 0;
  }
  // What one recording still held at its end says nothing of the next.
  auto later = trace.read.later.begin();
  const auto begin_anew = [&](std::uint32_t event) {
    for (; later != trace.read.later.end() && later->first_event <= event; ++later)
      for (auto& [device, ledger] : ledgers) ledger.forget();
  };
  bool goes_on = true;
  events.for_each<event_field::origin | event_field::allocation | event_field::address_or_value | event_field::size>(
      [&](std::uint32_t i, const Event& event) {
        begin_anew(i);
        if (!goes_on || !has_address(event.kind) || event.kind == EventKind::free_completed) return;
        const bool is_of_allocation = event.kind == EventKind::alloc || event.kind == EventKind::free_requested;
        if (is_of_allocation && only_live[index(event.origin)] != 0) return;
        OriginId id = event.origin;
        if (event.kind == EventKind::free_requested && event.allocation != AllocationId::none)
          id = events.origin_of(event.allocation);
        const Origin& origin = trace.tables[id];
        DeviceLedger* const ledger = of_heap[index(origin.heap)];
        if (ledger == nullptr) return;  // a free of nothing that was recorded
        ledger->see(event, layout.of_origin[index(id)], layout.is_created[index(id)] != 0);
        goes_on = after(traits[index(origin.heap)].device, i, *ledger);
      });
}

std::vector<HeapPart> parts_of(const DeviceLedger& ledger, const std::vector<DeviceHeap>& heaps) {
  std::vector<HeapPart> parts;
  for (const DeviceHeap& of : heaps) {
    const HeapPart part{
        .heap = of.heap, .held = ledger.held(of.heap), .live = ledger.live(of.heap), .whole = ledger.covered(of.heap)};
    if (part.whole > 0_B || part.held > 0_B || part.live > 0_B) parts.push_back(part);
  }
  return parts;
}

std::vector<DriverPart> driver_parts_of(const Layout& layout, const DeviceLedger& ledger, std::int32_t device) {
  std::vector<DriverPart> parts;
  for (DriverPart part : layout.parts) {
    if (layout.traits[index(part.heap)].device != device) continue;
    part.held = ledger.held_of_part(layout.number_of(part));
    parts.push_back(part);
  }
  return parts;
}

/// The nearest of the heaps that a pool names as those around it which has memory of the same device; else none.
HeapId named_parent(const Tables& tables, const std::vector<HeapTraits>& traits, HeapId heap) {
  HeapId at = tables[heap].parent;
  for (std::size_t step = 0; at != HeapId::none && step < traits.size(); ++step, at = tables[at].parent) {
    const HeapTraits& of = traits[index(at)];
    if (!of.is_driver && of.has_memory && of.device == traits[index(heap)].device) return at;
  }
  return HeapId::none;
}

}  // namespace

std::vector<std::pair<const DeviceHeap*, std::uint32_t>> tree_of(const DeviceMemory& device) {
  std::map<HeapId, std::vector<const DeviceHeap*>> inside;
  for (const DeviceHeap& heap : device.heaps) inside[heap.parent].push_back(&heap);
  std::vector<std::pair<const DeviceHeap*, std::uint32_t>> tree, open;  // open: yet to be visited, the next one last
  const auto add_children = [&](HeapId parent, std::uint32_t depth) {
    const auto children = inside.find(parent);
    if (children == inside.end()) return;
    std::ranges::stable_sort(children->second, {}, &DeviceHeap::peak_whole);
    for (const DeviceHeap* const heap : children->second) open.emplace_back(heap, depth);
  };
  add_children(HeapId::none, 0);
  while (!open.empty()) {
    tree.push_back(open.back());
    open.pop_back();
    add_children(tree.back().first->heap, tree.back().second + 1);
  }
  return tree;
}

std::vector<DeviceMemory> device_memory(const Trace& trace) {
  const Layout layout(trace);
  const std::vector<HeapTraits>& traits = layout.traits;
  std::map<std::int32_t, DeviceMemory> devices;
  std::map<std::int32_t, HeapId> roots;  // the driver's heap whose allocations are the device's
  for (std::uint32_t h = 1; h < trace.tables.heaps.size(); ++h)
    if (traits[h].is_driver && traits[h].has_memory)
      if (const auto [root, is_new] = roots.try_emplace(traits[h].device, HeapId{h});
          !is_new && traits[h].has_allocations && !traits[index(root->second)].has_allocations)
        root->second = HeapId{h};
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h) {
    if (traits[h].has_memory) {
      DeviceMemory& device = devices.try_emplace(traits[h].device).first->second;
      device.device = traits[h].device;
      // What is mapped is counted where it was made.
      if (h == 0 || !traits[h].is_driver || roots.at(traits[h].device) == HeapId{h})
        device.heaps.push_back({.heap = HeapId{h}, .is_mapped = traits[h].is_mapped});
    }
  }
  for (const HeapTraits& of : std::span(traits).subspan(1))
    if (const auto device = devices.find(of.device); of.is_driver && device != devices.end())
      device->second.has_driver = true;
  const Events& events = trace.events;
  for (std::size_t i = 0; (i = events.find(EventKind::alloc_failed, i)) < events.count(); ++i)
    ++devices.at(traits[index(trace.tables[events.origin(i)].heap)].device).failures;

  SampledDevices samples(trace);
  std::vector<Bytes> covered(traits.size()), held(traits.size());  // at most, by heap
  std::vector<HeapId> around(traits.size(), HeapId::none);
  DeviceMemory* latest = nullptr;  // nearly always the same
  for_each_instant(trace, layout, Of::held_and_live,
                   [&](std::int32_t number, std::uint32_t event, const DeviceLedger& ledger) {
                     if (latest == nullptr || latest->device != number) latest = &devices.at(number);
                     DeviceMemory& device = *latest;
                     const Bytes now = ledger.held(), live = ledger.live();
                     const OriginId origin = events.origin(event);
                     const std::uint32_t heap = index(trace.tables[origin].heap);
                     if (ledger.is_one_heap()) {
                       covered[heap] = held[heap] = std::max(held[heap], now);
                     } else {
                       covered[heap] = std::max(covered[heap], ledger.covered(HeapId{heap}));
                       held[heap] = std::max(held[heap], ledger.held(HeapId{heap}));
                       const std::uint32_t part = index(layout.of_origin[index(origin)]);
                       if (part != heap) held[part] = std::max(held[part], ledger.held_of_part(HeapId{part}));
                       if (around[heap] == HeapId::none) around[heap] = ledger.around(HeapId{heap});
                     }
                     samples.see(number, event, now);
                     if (std::tie(now, live) > std::tie(device.peak_held.held, device.peak_held.live))
                       device.peak_held = {.event = event, .held = now, .live = live, .parts = {}};
                     if (live > device.peak_live.live)
                       device.peak_live = {.event = event, .held = now, .live = live, .parts = {}};
                     return true;
                   });
  // Only now is it known at which instants the heaps' parts are wanted.
  bool has_parts = !layout.parts.empty();
  std::uint32_t last = 0;
  for (auto& [number, device] : devices) {
    has_parts |= device.heaps.size() > 1;
    last = std::max({last, device.peak_held.event, device.peak_live.event});
    for (DeviceInstant* const peak : {&device.peak_held, &device.peak_live})
      if (device.heaps.size() == 1 && peak->held > 0_B)
        peak->parts = {
            {.heap = device.heaps.front().heap, .held = peak->held, .live = peak->live, .whole = peak->held}};
    for (DeviceHeap& of : device.heaps) {
      of.peak_held = held[index(of.heap)];
      of.peak_whole = traits[index(of.heap)].is_driver ? device.peak_held.held : covered[index(of.heap)];
      of.parent = named_parent(trace.tables, traits, of.heap);
      if (of.parent == HeapId::none) of.parent = around[index(of.heap)];
      of.is_inside = !traits[index(of.heap)].is_driver && of.peak_held < covered[index(of.heap)] - of.peak_held;
    }
  }
  if (has_parts)
    for_each_instant(trace, layout, Of::held_and_live,
                     [&](std::int32_t number, std::uint32_t event, const DeviceLedger& ledger) {
                       DeviceMemory& device = devices.at(number);
                       for (DeviceInstant* const peak : {&device.peak_held, &device.peak_live})
                         if (peak->event == event && peak->held > 0_B) peak->parts = parts_of(ledger, device.heaps);
                       if (device.peak_held.event == event)
                         device.driver_parts = driver_parts_of(layout, ledger, number);
                       return event < last;
                     });
  for (auto& [number, device] : devices) {
    for (DriverPart& part : device.driver_parts) {
      part.unused = samples.unused(part.heap, part.pool, device.peak_held.event);
      part.peak = std::max(part.held, held[index(layout.number_of(part))]);
    }
    std::erase_if(device.driver_parts, [](const DriverPart& part) { return part.peak == 0_B; });
    device.samples = samples.around(number, device.peak_held.event);
    const auto driver =
        std::ranges::find_if(device.heaps, [&](const DeviceHeap& of) { return traits[index(of.heap)].is_driver; });
    const HeapId root = device.driver = driver == device.heaps.end() ? HeapId::none : driver->heap;
    std::map<HeapId, DeviceHeap*> heaps;
    for (DeviceHeap& of : device.heaps) heaps[of.heap] = &of;
    std::set<HeapId> rooted{HeapId::none, root};  // that have no way back to themselves
    for (DeviceHeap& of : device.heaps) {
      if (traits[index(of.heap)].is_driver) continue;
      // Damaged files have heaps that are inside themselves.
      std::set<HeapId> path;
      HeapId at = of.heap;
      while (!rooted.contains(at) && path.insert(at).second) at = heaps.at(at)->parent;
      if (!rooted.contains(at)) heaps.at(at)->parent = root;
      if (of.parent == HeapId::none) of.parent = root;
      rooted.insert(path.begin(), path.end());
    }
  }
  std::vector<DeviceMemory> result;
  for (auto& entry : devices) result.push_back(std::move(entry.second));
  return result;
}

std::map<std::int32_t, std::vector<HeldFrom>> held_beside(const Trace& trace, std::span<const HeapId> heaps) {
  const Layout layout(trace);
  const std::vector<HeapTraits>& traits = layout.traits;
  std::map<std::int32_t, std::vector<HeldFrom>> series;
  for_each_instant(trace, layout, Of::held, [&](std::int32_t device, std::uint32_t event, const DeviceLedger& ledger) {
    Bytes beside = ledger.held();
    for (const HeapId heap : heaps)
      if (traits[index(heap)].device == device) beside = beside - ledger.held(heap);
    std::vector<HeldFrom>& of = series[device];
    if (beside != (of.empty() ? 0_B : of.back().held)) of.push_back({.event = event, .held = beside});
    return true;
  });
  return series;
}

SampledDevices::SampledDevices(const Trace& trace) {
  const Events& events = trace.events;
  const Tables& tables = trace.tables;
  std::map<std::pair<HeapId, PoolId>, Bytes> unused, graphs;
  const auto sum_of = [&](const std::map<std::pair<HeapId, PoolId>, Bytes>& parts, std::int32_t device) {
    Bytes sum;
    for (const auto& [of, bytes] : parts)
      if (tables[of.first].device == device) sum += bytes;
    return sum;
  };
  for (std::size_t at = 0; (at = events.find(EventKind::memory_info, at)) < events.count(); ++at) {
    const auto i = static_cast<std::uint32_t>(at);
    const Origin& origin = tables[events.origin(i)];
    const Heap& heap = tables[origin.heap];
    if (heap.level != Level::driver || heap.device < 0) continue;
    const Bytes used = events.size(i), free{events.address_or_value(i)};
    std::vector<Sample>& samples = devices_[heap.device].samples;
    if (samples_device(tables, origin)) {
      samples.push_back({.event = i, .used = used, .free = free});
    } else if (const std::string& name = tables[tables[origin.pool].name]; name == "graph") {
      graphs[{origin.heap, origin.pool}] = used + free;
    } else if (name == "async") {
      unused[{origin.heap, origin.pool}] = free;
      unused_[{origin.heap, origin.pool}].emplace_back(i, free);
    }
    // Pools are asked directly after their device.
    if (samples.empty()) continue;
    samples.back().pools = sum_of(unused, heap.device);
    samples.back().graphs = sum_of(graphs, heap.device);
  }
}

void SampledDevices::see(std::int32_t device, std::uint32_t event, Bytes held) {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return;
  Device& of = found->second;
  for (; of.next < of.samples.size() && of.samples[of.next].event < event; ++of.next)
    of.samples[of.next].held = of.held;
  of.held = held;
}

std::optional<DeviceSamples> SampledDevices::around(std::int32_t device, std::uint32_t event) const {
  const auto found = devices_.find(device);
  if (found == devices_.end() || found->second.samples.empty()) return std::nullopt;
  const Device& of = found->second;
  const auto result_of = [&](std::size_t i) {
    const Sample& sample = of.samples[i];
    const Bytes known = (i < of.next ? sample.held : of.held) + sample.pools + sample.graphs;
    return DeviceSamples{.total = sample.used + sample.free,
                         .pools = sample.pools,
                         .graphs = sample.graphs,
                         .of_nobody = sample.used - std::min(sample.used, known)};
  };
  const auto after =
      static_cast<std::size_t>(std::ranges::upper_bound(of.samples, event, {}, &Sample::event) - of.samples.begin());
  if (after == 0) return result_of(0);
  const DeviceSamples before = result_of(after - 1);
  if (after == of.samples.size()) return before;
  DeviceSamples result = before;
  result.of_nobody = std::min(before.of_nobody, result_of(after).of_nobody);
  return result;
}

std::optional<Bytes> SampledDevices::unused(HeapId heap, PoolId pool, std::uint32_t event) const {
  const auto found = unused_.find({heap, pool});
  if (found == unused_.end()) return std::nullopt;
  const auto after = std::ranges::upper_bound(found->second, event, {}, &std::pair<std::uint32_t, Bytes>::first);
  return after == found->second.begin() ? found->second.front().second : std::prev(after)->second;
}

}  // namespace memreel
