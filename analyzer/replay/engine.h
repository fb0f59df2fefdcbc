// The replay loop: drives one policy with one heap's operations and measures what it does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "analyzer/policies/policy.h"
#include "analyzer/replay/device.h"
#include "analyzer/replay/prepared.h"
#include "analyzer/replay/replay.h"

namespace memreel {

struct RunOptions {
  DeviceModel device;
  std::size_t series_points = 0;
  /// Stop at the first failure. A request that failed when it was recorded may fail again.
  bool stop_at_failure = false;
};

/// A highest value and the first row of the heap's operations at which it was reached.
struct Peak {
  Bytes value;
  std::size_t row = 0;

  bool see(Bytes now, std::size_t at) {
    if (now <= value) return false;
    value = now;
    row = at;
    return true;
  }
};

/// What is measured over a stretch of operations.
struct Measures {
  Peak live, allocated, reserved;
  Bytes allocated_at_reserved_peak;
  double external_fragmentation = 0;  // highest

  void see_reserved(const HeapUse& use, std::size_t row) {
    if (reserved.see(use.reserved, row)) allocated_at_reserved_peak = use.allocated;
  }

  template <Policy P>
  void see_free(const P& policy) {
    const Bytes free = policy.use().free;
    if (free.count == 0) return;
    const auto total = static_cast<double>(free.count);
    const auto outside = static_cast<double>((free - policy.largest_free()).count);
    if (outside > external_fragmentation * total) external_fragmentation = outside / total;
  }

  /// Takes over what is higher in `later`, the measures of a stretch that follows.
  void fold(const Measures& later);
};

/// Requests that failed and whose frees are therefore to be ignored, by slot.
class FailedSlots {
 public:
  explicit FailedSlots(std::uint32_t slot_count) : failed_(slot_count) {}

  void add(std::uint32_t slot) {
    failed_[slot] = true;
    ++count_;
  }
  void remove(std::uint32_t slot) {
    failed_[slot] = false;
    --count_;
  }
  bool empty() const { return count_ == 0; }
  bool contains(std::uint32_t slot) const { return count_ > 0 && failed_[slot]; }

 private:
  std::vector<bool> failed_;
  std::size_t count_ = 0;
};

/// One run of `policy`, which must be new, over `heap`.
template <Policy P>
class Replay {
 public:
  Replay(const Prepared& heap, P& policy, const RunOptions& options)
      : heap_(heap), policy_(policy), options_(options), failed_(heap.slot_count) {}

  ReplayResult run() {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t rows = heap_.count();
    const std::size_t stretches = std::clamp<std::size_t>(options_.series_points, 1, std::max<std::size_t>(rows, 1));
    for (std::size_t i = 0; i < stretches && !stopped_; ++i)
      run_stretch(rows * i / stretches, rows * (i + 1) / stretches);
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    finish();
    return std::move(result_);
  }

 private:
  /// How many rows ahead the memory that a row needs is fetched: its block's name, the block, the block's neighbours.
  static constexpr std::size_t name_ahead = 24, block_ahead = 16, neighbours_ahead = 8;

  void foresee(std::size_t row) {
    if constexpr (requires { policy_.prefetch_block(0U); }) {
      const auto slot = [&](std::size_t ahead) { return heap_.slot[std::min(row + ahead, heap_.count() - 1)]; };
      policy_.prefetch_name(slot(name_ahead));
      policy_.prefetch_block(slot(block_ahead));
      policy_.prefetch_neighbours(slot(neighbours_ahead));
    }
  }

  void run_stretch(std::size_t begin, std::size_t end) {
    const HeapUse& use = policy_.use();
    Measures measures{.live = {live_, begin}, .allocated = {use.allocated, begin}, .reserved = {use.reserved, begin}};
    if (!done_at_once(begin, end, measures)) run_rows(begin, end, measures);
    all_.fold(measures);
    if (options_.series_points > 0 && begin < end)
      result_.series.push_back({.first_event = heap_.event[begin],
                                .live_max = measures.live.value,
                                .allocated_max = measures.allocated.value,
                                .reserved_max = measures.reserved.value,
                                .external_fragmentation_max = measures.external_fragmentation});
  }

  /// A policy that is a mere sum can do many rows in one go.
  bool done_at_once(std::size_t begin, std::size_t end, Measures& measures) {
    if constexpr (requires { policy_.run_at_once(heap_, begin, end, live_, measures); })
      return failed_.empty() && policy_.run_at_once(heap_, begin, end, live_, measures);
    else
      return false;
  }

  void run_rows(std::size_t begin, std::size_t end, Measures& measures) {
    const HeapUse& use = policy_.use();
    // What is known of fewer allocations stays in the cache by itself.
    const bool far_apart = heap_.slot_count > 8192;
    for (std::size_t row = begin; row < end && !stopped_; ++row) {
      if (far_apart) foresee(row);
      const std::uint32_t slot = heap_.slot[row];
      const Bytes size = heap_.size[row];
      switch (heap_.op[row]) {
        case Op::alloc:
          if (policy_.allocate(slot, size, heap_.lane[row])) [[likely]] {
            live_ += size;
            measures.live.see(live_, row);
            measures.allocated.see(use.allocated, row);
            measures.see_reserved(use, row);
          } else {
            failed_.add(slot);
            note_failure(row);
          }
          break;
        case Op::free:
          if (failed_.contains(slot)) [[unlikely]] {
            failed_.remove(slot);
            break;
          }
          policy_.free(slot, size);
          live_ -= size;
          break;
        case Op::free_requested:
          if (failed_.contains(slot)) [[unlikely]]
            break;
          policy_.free_requested(slot, size);
          live_ -= size;
          break;
        case Op::free_completed:
          if (failed_.contains(slot)) [[unlikely]] {
            failed_.remove(slot);
            break;
          }
          policy_.free_completed(slot, size);
          break;
        case Op::alloc_failed:
          try_again(row, measures);
          break;
        case Op::empty_cache:
          policy_.empty_cache();
          break;
        default:
          pass_on(row);
      }
      measures.see_free(policy_);
    }
  }

  /// What only some policies want to know.
  void pass_on(std::size_t row) {
    const std::uint32_t lane = heap_.lane[row];
    const Op op = heap_.op[row];
    if constexpr (PoolingPolicy<P>) {
      if (op == Op::empty_pool) policy_.empty_pool(lane);
      if (op == Op::pool_ended) policy_.pool_ended(lane);
    }
    if constexpr (SynchronizingPolicy<P>) {
      if (op == Op::device_synchronized) policy_.device_synchronized();
      if (op == Op::stream_synchronized) policy_.stream_synchronized(lane);
      if (op == Op::stream_waits) policy_.stream_waits(lane, heap_.slot[row]);
    }
  }

  /// A request that failed when it was recorded. The program went on without the memory, so it is given back at once.
  void try_again(std::size_t row, Measures& measures) {
    const std::uint32_t slot = heap_.slot_count;
    if (policy_.allocate(slot, heap_.size[row], heap_.lane[row]))
      policy_.free(slot, heap_.size[row]);
    else if (!options_.stop_at_failure)
      note_failure(row);
    measures.see_reserved(policy_.use(), row);
  }

  void note_failure(std::size_t row) {
    ++result_.failed_allocations;
    if (options_.stop_at_failure) stopped_ = true;
    if (result_.first_failure) return;
    result_.first_failure = {.event = heap_.event[row],
                             .requested = heap_.size[row],
                             .live = live_,
                             .reserved = policy_.use().reserved,
                             .capacity = options_.device.capacity,
                             .free = policy_.use().free,
                             .largest_free = policy_.largest_free()};
  }

  void finish() {
    const auto event = [&](const Peak& peak) -> std::uint64_t {
      return peak.row < heap_.event.size() ? heap_.event[peak.row] : 0;
    };
    result_.heap = heap_.heap;
    result_.device = heap_.device;
    result_.device_model = options_.device;
    result_.events = heap_.count();
    result_.peak_live = all_.live.value;
    result_.peak_live_event = event(all_.live);
    result_.peak_allocated = all_.allocated.value;
    result_.peak_allocated_event = event(all_.allocated);
    result_.peak_reserved = all_.reserved.value;
    result_.peak_reserved_event = event(all_.reserved);
    result_.end_reserved = policy_.use().reserved;
    if (all_.reserved.value.count > 0)
      result_.fragmentation_at_peak = 1 - static_cast<double>(all_.allocated_at_reserved_peak.count) /
                                              static_cast<double>(all_.reserved.value.count);
    result_.external_fragmentation_max = all_.external_fragmentation;
    result_.driver_calls = policy_.driver_calls();
  }

  const Prepared& heap_;
  P& policy_;
  const RunOptions& options_;
  FailedSlots failed_;
  Bytes live_;
  Measures all_;
  bool stopped_ = false;
  ReplayResult result_;
};

inline void Measures::fold(const Measures& later) {
  live.see(later.live.value, later.live.row);
  allocated.see(later.allocated.value, later.allocated.row);
  if (reserved.see(later.reserved.value, later.reserved.row))
    allocated_at_reserved_peak = later.allocated_at_reserved_peak;
  external_fragmentation = std::max(external_fragmentation, later.external_fragmentation);
}

/// One run over `heap` of a policy made as `P(heap, settings, device)`.
template <class P, class Settings>
ReplayResult run_policy(const Prepared& heap, const Settings& settings, const RunOptions& options) {
  SimulatedDevice device(options.device, heap.segments);
  P policy(heap, settings, device);
  return Replay<P>(heap, policy, options).run();
}

}  // namespace memreel
