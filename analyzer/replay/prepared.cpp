#include "analyzer/replay/prepared.h"

#include <utility>

#include "analyzer/replay/implied_capacity.h"

namespace memreel {
namespace {

/// Where an allocation of the trace stands. Damaged traces free twice, or complete what was never let go of.
struct Allocation {
  enum class Life : std::uint8_t { unborn, live, requested, completed };
  std::uint32_t slot = 0;
  HeapId heap = HeapId::none;
  Life life = Life::unborn;
};

/// Builds the columns of one heap.
class HeapBuilder {
 public:
  HeapBuilder(HeapId id, const Heap& heap, const Tables& tables) : tables_(tables) {
    heap_.heap = id;
    heap_.device = heap.device;
    heap_.level = heap.level;
    completes_at_request_ = !heap.observes_completion;
  }

  std::uint32_t alloc(const Origin& origin, Bytes size, std::uint32_t event) {
    const std::uint32_t slot = take_slot();
    push(Op::alloc, slot, lane(origin), size, event);
    return slot;
  }

  void alloc_failed(const Origin& origin, Bytes size, std::uint32_t event) {
    push(Op::alloc_failed, 0, lane(origin), size, event);
  }

  void empty_cache(std::uint32_t event) { push(Op::empty_cache, 0, 0, {}, event); }

  /// True when the free is also the completion.
  bool free_requested(std::uint32_t slot, Bytes size, std::uint32_t event) {
    push(completes_at_request_ ? Op::free : Op::free_requested, slot, 0, size, event);
    if (completes_at_request_) free_slots_.push_back(slot);
    return completes_at_request_;
  }

  void free_completed(std::uint32_t slot, bool was_requested, Bytes size, std::uint32_t event) {
    const bool directly_after = !heap_.op.empty() && heap_.op.back() == Op::free_requested && heap_.slot.back() == slot;
    if (was_requested && directly_after)
      heap_.op.back() = Op::free;
    else
      push(was_requested ? Op::free_completed : Op::free, slot, 0, size, event);
    free_slots_.push_back(slot);
  }

  void segment(Address address, Bytes size) { heap_.segments.push_back({address, size}); }

  void settings(const Settings& settings) {
    for (const auto& [key, value] : settings.entries) heap_.settings[tables_[key]] = tables_[value];
  }

  bool used() const { return !heap_.op.empty(); }
  Prepared take() && { return std::move(heap_); }

 private:
  void push(Op op, std::uint32_t slot, std::uint32_t lane, Bytes size, std::uint32_t event) {
    heap_.op.push_back(op);
    heap_.slot.push_back(slot);
    heap_.lane.push_back(lane);
    heap_.size.push_back(size);
    heap_.event.push_back(event);
  }

  std::uint32_t take_slot() {
    if (free_slots_.empty()) return heap_.slot_count++;
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  std::uint32_t lane(const Origin& origin) {
    const auto [found, is_new] =
        lanes_.try_emplace({origin.pool, origin.stream}, static_cast<std::uint32_t>(heap_.lanes.size()));
    if (is_new)
      heap_.lanes.push_back(
          {.pool = origin.pool, .stream = origin.stream, .stream_handle = tables_[origin.stream].handle});
    return found->second;
  }

  const Tables& tables_;
  Prepared heap_;
  std::map<std::pair<PoolId, StreamId>, std::uint32_t> lanes_;
  std::vector<std::uint32_t> free_slots_;
  bool completes_at_request_ = false;
};

}  // namespace

std::vector<Prepared> prepare(const Trace& trace) {
  const Tables& tables = trace.tables;
  std::vector<HeapBuilder> heaps;
  heaps.reserve(tables.heaps.size());
  for (std::uint32_t i = 0; i < tables.heaps.size(); ++i) heaps.emplace_back(HeapId{i}, tables.heaps[i], tables);

  using Life = Allocation::Life;
  std::vector<Allocation> allocations(trace.allocation_events.size());
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const EventKind kind = events.kind[i];
    const Origin& origin = tables[events.origin[i]];
    const Bytes size = events.size[i];
    if (kind == EventKind::alloc || is_free(kind)) {
      const std::uint32_t id = index(events.allocation[i]);
      if (id >= allocations.size()) continue;  // freed, but the trace never saw it allocated
      Allocation& allocation = allocations[id];
      const bool alive = allocation.life == Life::live || allocation.life == Life::requested;
      if (kind == EventKind::alloc && allocation.life == Life::unborn) {
        allocation = {heaps[index(origin.heap)].alloc(origin, size, i), origin.heap, Life::live};
      } else if (kind == EventKind::free_requested && allocation.life == Life::live) {
        const bool completed = heaps[index(allocation.heap)].free_requested(allocation.slot, size, i);
        allocation.life = completed ? Life::completed : Life::requested;
      } else if (kind == EventKind::free_completed && alive) {
        heaps[index(allocation.heap)].free_completed(allocation.slot, allocation.life == Life::requested, size, i);
        allocation.life = Life::completed;
      }
      continue;
    }
    HeapBuilder& heap = heaps[index(origin.heap)];
    if (kind == EventKind::segment_alloc) heap.segment(events.address(i), size);
    if (kind == EventKind::alloc_failed) heap.alloc_failed(origin, size, i);
    if (kind == EventKind::empty_cache) heap.empty_cache(i);
    if (kind == EventKind::settings)
      heap.settings(tables[SettingsId{static_cast<std::uint32_t>(events.address_or_value[i])}]);
  }

  std::vector<Prepared> used;
  for (HeapBuilder& heap : heaps)
    if (heap.used()) used.push_back(std::move(heap).take());
  for (Prepared& heap : used) {
    for (const Heap& other : tables.heaps) heap.pooled |= heap.heap != HeapId::none && other.parent == heap.heap;
    heap.implied_capacity = implied_capacity(trace, heap);
  }
  return used;
}

}  // namespace memreel
