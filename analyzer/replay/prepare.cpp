// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/prepare.h"

#include <algorithm>
#include <map>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/steps.h"
#include "analyzer/replay/torch_calls.h"
#include "analyzer/replay/torch_rules.h"
#include "formats/model/flat_map.h"

namespace memreel {
namespace {

/// An allocation that is not completed.
struct Allocation {
  AllocationId id = AllocationId::none;
  HeapId heap = HeapId::none;
  std::uint32_t slot = 0;
  Bytes size;
  bool requested = false;  // the program freed it
};

/// The live allocations, by id. Completed ones are dropped.
class Allocations {
 public:
  /// All ids are below `count`: a table of them is faster than a map.
  void expect(std::size_t count) { table_.assign(count, absent); }

  void add(AllocationId id, HeapId heap, std::uint32_t slot, Bytes size) {
    std::uint32_t place = 0;
    if (empty_places_.empty()) {
      place = static_cast<std::uint32_t>(allocations_.size());
      allocations_.emplace_back();
    } else {
      place = empty_places_.back();
      empty_places_.pop_back();
    }
    // Field by field: a copy of what was just written in parts waits for all of them.
    Allocation& allocation = allocations_[place];
    allocation.id = id;
    allocation.heap = heap;
    allocation.slot = slot;
    allocation.size = size;
    allocation.requested = false;
    if (index(id) < table_.size())
      table_[index(id)] = place;
    else
      places_.put(id, place);
  }
  Allocation* find(AllocationId id) {
    const std::uint32_t place = place_of(id);
    return place == absent ? nullptr : &allocations_[place];
  }
  void remove(AllocationId id) {
    empty_places_.push_back(place_of(id));
    if (index(id) < table_.size())
      table_[index(id)] = absent;
    else
      places_.erase(id);
  }

 private:
  std::uint32_t place_of(AllocationId id) const {
    return index(id) < table_.size() ? table_[index(id)] : places_.find(id);
  }

  std::vector<std::uint32_t> table_;  // by id
  FlatMap<AllocationId, AllocationHash> places_;
  std::vector<Allocation> allocations_;
  std::vector<std::uint32_t> empty_places_;
};

/// Knows the stacks in which CUDA graph trees lay out a private pool as it was at an earlier moment.
///
/// Source: setCheckpointPoolState() in c10/cuda/CUDACachingAllocator.cpp, which torch/_inductor/cudagraph_trees.py
/// calls. With all of the pool's blocks free, it hands out every block that a segment had, from its front and whatever
/// their size class, and then frees those that were free.
class RestoringStacks {
 public:
  explicit RestoringStacks(const Tables& tables) : tables_(tables) {}

  bool contains(StackId stack) {
    if (restores_.size() < tables_.stacks.size()) look();
    return restores_[index(stack)];
  }

 private:
  void look() {
    for (std::size_t f = frames_.size(); f < tables_.frames.size(); ++f) {
      const std::string_view function = tables_[tables_.frames[f].function];
      frames_.push_back(function == "apply_checkpoint_execution_state_in_allocator" ||
                        function.find("setCheckpointPoolState") != std::string_view::npos);
    }
    for (std::size_t s = restores_.size(); s < tables_.stacks.size(); ++s) {
      const Stack& stack = tables_.stacks[s];
      restores_.push_back(s > 0 && (frames_[index(stack.frame)] || restores_[index(stack.caller)]));
    }
  }

  const Tables& tables_;
  std::vector<bool> frames_, restores_;  // by FrameId, StackId
};

/// Compares the first rows of a heap with what it held at its beginning, which they stand for in any order. The slots
/// of its blocks are numbered in order of addresses.
class InitialRows {
 public:
  void begin(const InitialHeap& initial) {
    state_ = {.segments = initial.segments};
    for (const InitialSegment& segment : initial.segments) {
      taken_.try_emplace(segment.address);
      Address at = segment.address;
      for (const InitialBlock& block : segment.blocks) {
        const bool pending = block.use == InitialUse::pending;
        if (block.use != InitialUse::free) blocks_.push_back({at, pending});
        if (block.use != InitialUse::free) missing_ += pending ? 2 : 1;
        at = at + block.size;
      }
    }
    std::ranges::sort(blocks_, {}, &InUse::address);
    state_.requested.resize(blocks_.size());
    known_ = true;
  }

  bool expects() const { return known_ && missing_ > 0; }
  std::uint32_t block_count() const { return static_cast<std::uint32_t>(blocks_.size()); }

  /// The program took a segment, which may be one of these: a flight recorder's have their times.
  void take_segment(Address address, Nanoseconds time) {
    if (const auto found = taken_.find(address); found != taken_.end() && !found->second) found->second = time;
  }

  /// None, and nothing is expected any more: no block is expected at `address`.
  std::optional<std::uint32_t> slot_at(Address address) {
    const auto found = std::ranges::lower_bound(blocks_, address, {}, &InUse::address);
    known_ = found != blocks_.end() && found->address == address && !found->seen;
    return known_ ? std::optional(static_cast<std::uint32_t>(found - blocks_.begin())) : std::nullopt;
  }

  void see(Op op, std::uint32_t slot, Bytes size, std::uint32_t event) {
    InUse* const block = slot < blocks_.size() ? &blocks_[slot] : nullptr;
    const bool begins = block != nullptr && op == Op::alloc && !block->seen;
    const bool is_freed = block != nullptr && op == Op::free_requested && block->seen && block->pending;
    known_ = begins || is_freed;
    if (!known_) return;
    --missing_;
    ++state_.rows;
    state_.last_event = event;
    if (begins) {
      block->seen = true;
      state_.requested[slot] = size;
      state_.live += size;
    } else {
      block->pending = false;
      state_.live -= size;
    }
  }

  /// Whether the latest of these rows is that of `event`.
  bool ends_with(std::uint32_t event) const { return state_.rows > 0 && state_.last_event == event; }

  std::optional<InitialState> take() && {
    if (!known_ || missing_ > 0) return std::nullopt;
    sort_by_age();
    return std::move(state_);
  }

 private:
  /// An expandable segment is as old as its oldest memory. Equally old ones stay in order of addresses.
  void sort_by_age() {
    std::map<Address, Nanoseconds> ages;
    const auto taken = [&](const InitialSegment& segment) { return taken_[segment.address].value_or(Nanoseconds{}); };
    for (const InitialSegment& segment : state_.segments) {
      Nanoseconds& age = ages.try_emplace(segment.range, taken(segment)).first->second;
      age = std::min(age, taken(segment));
    }
    std::ranges::stable_sort(state_.segments, {}, [&](const InitialSegment& segment) {
      return std::pair(ages[segment.range], segment.range);
    });
  }

  struct InUse {
    Address address;
    bool pending = false;  // its free request is expected
    bool seen = false;
  };
  std::vector<InUse> blocks_;                            // by address
  std::size_t missing_ = 0;                              // rows
  std::map<Address, std::optional<Nanoseconds>> taken_;  // by the address of a segment
  bool known_ = false;
  InitialState state_;
};

/// Builds the columns of one heap.
class HeapBuilder {
 public:
  HeapBuilder(HeapId id, const Heap& heap, const Tables& tables)
      : tables_(&tables), completes_at_request_(!heap.observes_completion) {
    heap_.heap = id;
    heap_.device = heap.device;
    heap_.level = heap.level;
    if (is_torch(tables, id)) unsplit_.emplace();
  }

  void start_from(const InitialHeap& initial) {
    if (started_ || !is_torch(*tables_, heap_.heap)) return;
    started_ = true;
    if (heap_.slot_count != 0 || !heap_.op.empty()) return;
    initial_.begin(initial);
    heap_.slot_count = initial_.block_count();
  }

  /// `restores`: it is one of the requests that lay out a pool again.
  std::uint32_t alloc(const Origin& origin, Bytes size, Address address, std::uint32_t event, bool restores) {
    if (restores && !initial_.expects()) [[unlikely]]
      restore(origin, size, address, event);
    std::optional<std::uint32_t> known;
    if (initial_.expects()) [[unlikely]]
      known = initial_.slot_at(address);
    const std::uint32_t slot = known ? *known : take_slot();
    push(Op::alloc, slot, pool_stream(origin), size, event);
    if (heap_.keeps_addresses) heap_.address.back() = address;
    if (unsplit_) unsplit_->allocated(origin, slot, address, size);
    return slot;
  }

  /// A request that fails has waited for all pending blocks, in vain: what completed directly before it, completed
  /// after it had searched.
  void alloc_failed(const Origin& origin, Bytes size, std::uint32_t event) {
    failed_ = true;
    push(Op::alloc_failed, 0, pool_stream(origin), size, event);
    if (!unsplit_ || origin.pool != PoolId::default_pool) return;  // other rules; private pools don't wait
    std::size_t first = heap_.count() - 1;
    while (first > 0 && heap_.op[first - 1] == Op::free_completed) --first;
    const auto to_front = [&](auto& column) {
      std::rotate(column.begin() + static_cast<std::ptrdiff_t>(first), column.end() - 1, column.end());
    };
    for_each_column(to_front, heap_);
    split_free(event);
  }

  /// A free of a block that would have served the request that fails right after it was not complete before.
  void split_free(std::uint32_t event) {
    if (heap_.count() < 2) return;
    const std::size_t failed = heap_.count() - 1, freed = failed - 1;
    if (heap_.op[freed] != Op::free || heap_.pool_stream[freed] != heap_.pool_stream[failed] ||
        heap_.size[freed] < heap_.size[failed])
      return;
    heap_.op[freed] = Op::free_requested;
    push(Op::free_completed, heap_.slot[freed], heap_.pool_stream[freed], heap_.size[freed], event);
  }

  void empty_cache(const Origin& origin, std::uint32_t event) {
    if (origin.pool == PoolId::default_pool)
      push(Op::empty_cache, 0, 0, {}, event);
    else
      push(Op::empty_pool, 0, pool_stream(origin), {}, event);
  }

  void pool_end(const Origin& origin, std::uint32_t event) { push(Op::pool_ended, 0, pool_stream(origin), {}, event); }

  /// Returns true if the free is also the completion.
  bool free_requested(std::uint32_t slot, const Origin& origin, Bytes size, std::uint32_t event) {
    push(completes_at_request_ ? Op::free : Op::free_requested, slot, pool_stream(origin), size, event);
    if (completes_at_request_) completed(slot);
    return completes_at_request_;
  }

  void free_completed(std::uint32_t slot, const Origin& origin, bool was_requested, Bytes size, std::uint32_t event) {
    const bool directly_after = !heap_.op.empty() && heap_.op.back() == Op::free_requested && heap_.slot.back() == slot;
    if (was_requested && directly_after && !initial_.ends_with(heap_.event.back()))
      heap_.op.back() = Op::free;
    else
      push(was_requested ? Op::free_completed : Op::free, slot, pool_stream(origin), size, event);
    completed(slot);
  }

  void synchronized(const Origin& origin, std::uint64_t how, std::uint32_t event) {
    const auto pool_stream_of = [&](StreamId stream) {
      return pool_stream({.pool = PoolId::default_pool, .stream = stream});
    };
    if (how == sync_device) {
      push(Op::device_synchronized, 0, 0, {}, event);
    } else if (how == sync_stream) {
      push(Op::stream_synchronized, 0, pool_stream_of(origin.stream), {}, event);
    } else if (how - sync_edge < tables_->streams.size()) {
      const StreamId awaited{static_cast<std::uint32_t>(how - sync_edge)};
      push(Op::stream_waits, pool_stream_of(awaited), pool_stream_of(origin.stream), {}, event);
    }
  }

  void segment(EventKind kind, const Origin& origin, Address address, Bytes size, Nanoseconds time) {
    initial_.take_segment(address, time);
    if (kind == EventKind::segment_alloc && size > 0_B) heap_.segments.push_back({address, size});
    if (!unsplit_) return;
    if (kind == EventKind::segment_map && initial_.expects()) [[unlikely]]  // in how many calls is not known
      for (Bytes at; at < size; at += TorchSettings::small_segment)
        unsplit_->taken(origin, address + at, std::min(size - at, TorchSettings::small_segment));
    else if (kind == EventKind::segment_alloc || kind == EventKind::segment_map)
      unsplit_->taken(origin, address, size);
    else
      unsplit_->given_back(origin, address, size);
  }

  void settings(const Settings& settings) {
    for (const auto& [key, value] : settings.entries) heap_.settings[(*tables_)[key]] = (*tables_)[value];
    if (heap_.op.empty()) heap_.keeps_addresses = heap_.settings.contains("kind");
    if (unsplit_) unsplit_->set(TorchSettings::recorded(heap_.settings));
  }

  std::int32_t device() const { return heap_.device; }
  bool used() const { return (heap_.slot_count > 0 || failed_) && !is_host_memory_of_driver(); }

  /// Null if there are none.
  const Prepared* take_rows() {
    for_each_column([](auto& column) { column.clear(); }, taken_);
    // The latest free request may turn into a free when its completion comes.
    const std::size_t kept = !heap_.op.empty() && heap_.op.back() == Op::free_requested ? 1 : 0;
    const std::size_t count = heap_.count() - kept;
    if (count == 0) return nullptr;
    for_each_column(
        [&](auto& from, auto& to) {
          to.swap(from);
          from.assign(to.begin() + static_cast<std::ptrdiff_t>(count), to.end());
          to.resize(count);
        },
        heap_, taken_);
    taken_.address.clear();
    if (heap_.keeps_addresses) {
      taken_.address.swap(heap_.address);
      heap_.address.assign(taken_.address.begin() + static_cast<std::ptrdiff_t>(count), taken_.address.end());
      taken_.address.resize(count);
    }
    return &taken_;
  }
  Prepared take(const ImpliedCapacities& capacities) && {
    heap_.initial = std::move(initial_).take();
    if (heap_.initial)
      for (const InitialSegment& segment : heap_.initial->segments)
        heap_.initial->pool_stream.push_back(pool_stream((*tables_)[segment.origin]));
    heap_.implied_capacity = capacities.bounds(heap_.heap).most;
    if (unsplit_)
      for (PoolStream& pool_stream : heap_.pool_streams) pool_stream.no_split = unsplit_->contains(pool_stream.pool);
    return std::move(heap_);
  }

 private:
  /// Requests of one segment follow each other; their memory is contiguous.
  void restore(const Origin& origin, Bytes size, Address address, std::uint32_t event) {
    std::vector<RecordedSegment>& restored = heap_.restored_segments;
    const bool goes_on =
        event == restored_event_ + 1 && !restored.empty() && address == restored.back().address + restored.back().size;
    restored_event_ = event;
    if (goes_on) {
      restored.back().size += size;
      return;
    }
    push(Op::pool_restored, static_cast<std::uint32_t>(restored.size()), pool_stream(origin), {}, event);
    restored.push_back({address, size});
  }

  template <class Function, class... Heaps>
  static void for_each_column(const Function& function, Heaps&... heaps) {
    function(heaps.op...);
    function(heaps.slot...);
    function(heaps.pool_stream...);
    function(heaps.size...);
    function(heaps.event...);
  }

  void push(Op op, std::uint32_t slot, std::uint32_t pool_stream, Bytes size, std::uint32_t event) {
    if (initial_.expects()) [[unlikely]]
      initial_.see(op, slot, size, event);
    heap_.op.push_back(op);
    heap_.slot.push_back(slot);
    heap_.pool_stream.push_back(pool_stream);
    heap_.size.push_back(size);
    heap_.event.push_back(event);
    if (heap_.keeps_addresses) heap_.address.push_back({});
  }

  void completed(std::uint32_t slot) {
    free_slots_.push_back(slot);
    if (unsplit_) unsplit_->completed(slot);
  }

  std::uint32_t take_slot() {
    if (free_slots_.empty()) return heap_.slot_count++;
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  std::uint32_t pool_stream(const Origin& origin) {
    if (latest_pool_stream_ < heap_.pool_streams.size()) {
      const PoolStream& latest = heap_.pool_streams[latest_pool_stream_];
      if (latest.pool == origin.pool && latest.stream == origin.stream) return latest_pool_stream_;
    }
    const auto [found, is_new] =
        pool_streams_.try_emplace({origin.pool, origin.stream}, static_cast<std::uint32_t>(heap_.pool_streams.size()));
    if (is_new)
      heap_.pool_streams.push_back(
          {.pool = origin.pool, .stream = origin.stream, .stream_handle = (*tables_)[origin.stream].handle});
    return latest_pool_stream_ = found->second;
  }

  /// Page-locked memory: no allocator of device memory would have served these requests.
  bool is_host_memory_of_driver() const { return heap_.device < 0 && heap_.level == Level::driver; }

  const Tables* tables_;
  Prepared heap_;
  Prepared taken_;  // rows moved out of heap_
  std::map<std::pair<PoolId, StreamId>, std::uint32_t> pool_streams_;
  std::uint32_t latest_pool_stream_ = 0;  // most requests are of the same one
  std::vector<std::uint32_t> free_slots_;
  std::optional<UnsplitPools> unsplit_;  // of PyTorch's allocator
  InitialRows initial_;
  bool started_ = false;  // its initial state was given
  bool completes_at_request_ = false;
  bool failed_ = false;               // at least one allocation failed
  std::uint32_t restored_event_ = 0;  // the latest request that laid out a pool again
};

}  // namespace

/// Dispatches events to the heaps they belong to.
class Preparation::Impl {
 public:
  Impl(const Tables& tables, std::size_t allocations) : tables_(tables), capacities_(tables), restoring_(tables) {
    allocations_.expect(allocations);
  }

  void start_from(const InitialHeap& initial) {
    make_heaps();
    if (index(initial.heap) < heaps_.size()) heaps_[index(initial.heap)].start_from(initial);
  }

  void add(const EventColumns& events, std::uint32_t first_event) {
    make_heaps();
    for (std::uint32_t i = 0; i < events.count(); ++i) {
      const EventKind kind = events.kind[i];
      const Origin& origin = tables_[events.origin[i]];
      if (kind == EventKind::alloc || is_free(kind))
        add_allocation_event(kind, origin, events, i, first_event + i);
      else
        add_other(kind, origin, events.address_or_value[i], events.size[i], events.time[i], first_event + i);
    }
  }

  const Prepared* take_rows(HeapId heap) {
    return index(heap) < heaps_.size() ? heaps_[index(heap)].take_rows() : nullptr;
  }

  std::vector<Prepared> finish() && {
    std::vector<Prepared> used;
    for (HeapBuilder& heap : heaps_)
      if (heap.used()) used.push_back(std::move(heap).take(capacities_));
    for (Prepared& heap : used)
      for (const Heap& other : tables_.heaps) heap.pooled |= heap.heap != HeapId::none && other.parent == heap.heap;
    return used;
  }

 private:
  void make_heaps() {
    for (auto i = static_cast<std::uint32_t>(heaps_.size()); i < tables_.heaps.size(); ++i)
      heaps_.emplace_back(HeapId{i}, tables_.heaps[i], tables_);
  }

  void add_allocation_event(EventKind kind, const Origin& origin, const EventColumns& events, std::uint32_t i,
                            std::uint32_t event) {
    const AllocationId id = events.allocation[i];
    const Bytes size = events.size[i];
    if (id == AllocationId::none) return;  // freed, but its allocation was never recorded
    Allocation* const allocation = allocations_.find(id);
    if (kind == EventKind::alloc) {
      HeapBuilder& heap = heaps_[index(origin.heap)];
      capacities_.see(kind, origin.heap, origin, size, 0);
      if (allocation != nullptr) return;
      const bool restores = restoring_.contains(events.stack[i]);
      allocations_.add(id, origin.heap, heap.alloc(origin, size, events.address(i), event, restores), size);
      return;
    }
    if (allocation == nullptr) return;  // damaged traces free twice
    HeapBuilder& heap = heaps_[index(allocation->heap)];
    capacities_.see(kind, allocation->heap, origin, allocation->size, 0);
    bool completed = true;
    if (kind == EventKind::free_completed)
      heap.free_completed(allocation->slot, origin, allocation->requested, allocation->size, event);
    else if (!allocation->requested)
      completed = heap.free_requested(allocation->slot, origin, allocation->size, event);
    else
      return;
    allocation->requested = true;
    if (completed) allocations_.remove(id);
  }

  void add_other(EventKind kind, const Origin& origin, std::uint64_t address_or_value, Bytes size, Nanoseconds time,
                 std::uint32_t event) {
    HeapBuilder& heap = heaps_[index(origin.heap)];
    capacities_.see(kind, origin.heap, origin, size, address_or_value);
    if (is_segment(kind)) heap.segment(kind, origin, Address{address_or_value}, size, time);
    if (kind == EventKind::alloc_failed) heap.alloc_failed(origin, size, event);
    if (kind == EventKind::empty_cache) heap.empty_cache(origin, event);
    if (kind == EventKind::pool_end) heap.pool_end(origin, event);
    if (kind == EventKind::settings) heap.settings(tables_[SettingsId{static_cast<std::uint32_t>(address_or_value)}]);
    if (kind == EventKind::sync)
      for (HeapBuilder& each : heaps_)  // streams belong to the device, whichever heap was notified
        if (each.device() == heap.device()) each.synchronized(origin, address_or_value, event);
  }

  const Tables& tables_;
  std::vector<HeapBuilder> heaps_;
  ImpliedCapacities capacities_;
  RestoringStacks restoring_;
  Allocations allocations_;
};

Preparation::Preparation(const Tables& tables, std::size_t allocations)
    : impl_(std::make_unique<Impl>(tables, allocations)) {}
Preparation::Preparation(Preparation&&) noexcept = default;
Preparation& Preparation::operator=(Preparation&&) noexcept = default;
Preparation::~Preparation() = default;
void Preparation::start_from(const InitialHeap& initial) { impl_->start_from(initial); }
void Preparation::add(const EventColumns& events, std::uint32_t first_event) { impl_->add(events, first_event); }
const Prepared* Preparation::take_rows(HeapId heap) { return impl_->take_rows(heap); }
std::vector<Prepared> Preparation::finish() && { return std::move(*impl_).finish(); }

std::vector<Prepared> prepare(const Trace& trace) {
  if (!tells_live_memory(trace)) return {};
  Preparation preparation(trace.tables, trace.events.allocation_count());
  for (const InitialHeap& initial : trace.initial_heaps) preparation.start_from(initial);
  trace.events.for_each_block([&](const EventColumns& block, std::uint32_t first) { preparation.add(block, first); });
  std::vector<Prepared> heaps = std::move(preparation).finish();
  for (Prepared& heap : heaps) heap.step_ends = rows_after(heap, find_steps(trace, heap.heap).ends);
  return heaps;
}

std::vector<std::uint32_t> rows_after(const Prepared& heap, std::span<const std::uint32_t> events) {
  std::vector<std::uint32_t> rows;
  for (const std::uint32_t event : events)
    rows.push_back(static_cast<std::uint32_t>(std::ranges::lower_bound(heap.event, event) - heap.event.begin()));
  return rows;
}

}  // namespace memreel
