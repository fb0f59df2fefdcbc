#include "analyzer/replay/prepared.h"

#include <algorithm>
#include <utility>

#include "analyzer/replay/implied_capacity.h"
#include "analyzer/replay/steps.h"

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
    failed_ = true;
    push(Op::alloc_failed, 0, lane(origin), size, event);
  }

  void empty_cache(const Origin& origin, std::uint32_t event) {
    if (origin.pool == PoolId::default_pool)
      push(Op::empty_cache, 0, 0, {}, event);
    else
      push(Op::empty_pool, 0, lane(origin), {}, event);
  }

  void pool_end(const Origin& origin, std::uint32_t event) { push(Op::pool_ended, 0, lane(origin), {}, event); }

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

  void synchronized(const Origin& origin, std::uint64_t how, std::uint32_t event) {
    const auto lane_of = [&](StreamId stream) { return lane({.pool = PoolId::default_pool, .stream = stream}); };
    if (how == sync_device) {
      push(Op::device_synchronized, 0, 0, {}, event);
    } else if (how == sync_stream) {
      push(Op::stream_synchronized, 0, lane_of(origin.stream), {}, event);
    } else if (how - sync_edge < tables_.streams.size()) {
      const StreamId awaited{static_cast<std::uint32_t>(how - sync_edge)};
      push(Op::stream_waits, lane_of(awaited), lane_of(origin.stream), {}, event);
    }
  }

  void segment(Address address, Bytes size) { heap_.segments.push_back({address, size}); }

  void settings(const Settings& settings) {
    for (const auto& [key, value] : settings.entries) heap_.settings[tables_[key]] = tables_[value];
  }

  std::int32_t device() const { return heap_.device; }
  bool used() const { return heap_.slot_count > 0 || failed_; }
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
  bool failed_ = false;  // at least once to allocate
};

/// Sorts a trace's events to the heaps they belong to.
class Preparation {
 public:
  explicit Preparation(const Trace& trace)
      : trace_(trace), tables_(trace.tables), allocations_(trace.allocation_events.size()) {
    heaps_.reserve(tables_.heaps.size());
    for (std::uint32_t i = 0; i < tables_.heaps.size(); ++i) heaps_.emplace_back(HeapId{i}, tables_.heaps[i], tables_);
  }

  void add(std::uint32_t event) {
    const EventKind kind = trace_.events.kind[event];
    const Origin& origin = tables_[trace_.events.origin[event]];
    if (kind == EventKind::alloc || is_free(kind))
      add_allocation_event(kind, origin, event);
    else
      add_other(kind, origin, event);
  }

  std::vector<Prepared> take() && {
    std::vector<Prepared> used;
    for (HeapBuilder& heap : heaps_)
      if (heap.used()) used.push_back(std::move(heap).take());
    return used;
  }

 private:
  using Life = Allocation::Life;

  void add_allocation_event(EventKind kind, const Origin& origin, std::uint32_t event) {
    const std::uint32_t id = index(trace_.events.allocation[event]);
    if (id >= allocations_.size()) return;  // freed, but the trace never saw it allocated
    const Bytes size = trace_.events.size[event];
    Allocation& allocation = allocations_[id];
    const bool alive = allocation.life == Life::live || allocation.life == Life::requested;
    if (kind == EventKind::alloc && allocation.life == Life::unborn) {
      allocation = {heaps_[index(origin.heap)].alloc(origin, size, event), origin.heap, Life::live};
    } else if (kind == EventKind::free_requested && allocation.life == Life::live) {
      const bool completed = heaps_[index(allocation.heap)].free_requested(allocation.slot, size, event);
      allocation.life = completed ? Life::completed : Life::requested;
    } else if (kind == EventKind::free_completed && alive) {
      heaps_[index(allocation.heap)].free_completed(allocation.slot, allocation.life == Life::requested, size, event);
      allocation.life = Life::completed;
    }
  }

  void add_other(EventKind kind, const Origin& origin, std::uint32_t event) {
    HeapBuilder& heap = heaps_[index(origin.heap)];
    const Bytes size = trace_.events.size[event];
    const std::uint64_t value = trace_.events.address_or_value[event];
    if (kind == EventKind::segment_alloc) heap.segment(Address{value}, size);
    if (kind == EventKind::alloc_failed) heap.alloc_failed(origin, size, event);
    if (kind == EventKind::empty_cache) heap.empty_cache(origin, event);
    if (kind == EventKind::pool_end) heap.pool_end(origin, event);
    if (kind == EventKind::settings) heap.settings(tables_[SettingsId{static_cast<std::uint32_t>(value)}]);
    if (kind == EventKind::sync)
      for (HeapBuilder& each : heaps_)  // streams are the device's, whichever heap heard of it
        if (each.device() == heap.device()) each.synchronized(origin, value, event);
  }

  const Trace& trace_;
  const Tables& tables_;
  std::vector<HeapBuilder> heaps_;
  std::vector<Allocation> allocations_;
};

}  // namespace

std::vector<Prepared> prepare(const Trace& trace) {
  Preparation preparation(trace);
  for (std::uint32_t event = 0; event < trace.events.count(); ++event) preparation.add(event);
  std::vector<Prepared> heaps = std::move(preparation).take();
  for (Prepared& heap : heaps) {
    for (const Heap& other : trace.tables.heaps) heap.pooled |= heap.heap != HeapId::none && other.parent == heap.heap;
    heap.implied_capacity = implied_capacity(trace, heap);
    for (const std::uint32_t end : find_steps(trace, heap.heap).ends)
      heap.step_ends.push_back(
          static_cast<std::uint32_t>(std::ranges::lower_bound(heap.event, end) - heap.event.begin()));
  }
  return heaps;
}

}  // namespace memreel
