// SPDX-License-Identifier: Apache-2.0
// The device at the time of recording: grants what it granted, refuses what it refused.
#pragma once

#include <iterator>
#include <map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/torch/settings.h"

namespace memreel {

// A device whose addresses follow the order of allocation.

/// An adapter between a policy and a device: memory obtained later has a higher address. A policy that breaks ties by
/// address thus breaks them by the age of the memory and then by address, as PyTorch does since 2.13.
class AscendingAddresses final : public Device {
 public:
  /// `device` must outlive this object.
  explicit AscendingAddresses(Device& device) : device_(device) {}

  /// The device's address for one of the policy's.
  Address real(Address address) const override {
    const auto after = real_.upper_bound(address);
    if (after == real_.begin()) return address;
    const auto& [base, memory] = *std::prev(after);
    return memory + (address - base);
  }

  std::optional<Address> reserve(Bytes size) override {
    const auto memory = device_.reserve(size);
    if (!memory) return std::nullopt;
    return add(*memory, size);
  }
  void release(Address address, Bytes size) override {
    device_.release(real(address), size);
    real_.erase(address);
  }
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override {
    const auto memory = device_.reserve_addresses(least, unit);
    if (!memory) return std::nullopt;
    return Addresses{add(memory->address, memory->size), memory->size};
  }
  void release_addresses(Address address) override {
    device_.release_addresses(real(address));
    real_.erase(address);
  }
  bool map(Address address, Bytes size) override { return device_.map(real(address), size); }
  void unmap(Address address, Bytes size) override { device_.unmap(real(address), size); }
  std::optional<Address> hold(Address recorded, Bytes size) override {
    const auto memory = device_.hold(recorded, size);
    if (!memory) return std::nullopt;
    return add(*memory, size);
  }
  std::optional<Addresses> hold_addresses(Address recorded, Bytes least, Bytes unit) override {
    const auto memory = device_.hold_addresses(recorded, least, unit);
    if (!memory) return std::nullopt;
    return Addresses{add(memory->address, memory->size), memory->size};
  }
  bool hold_mapped(Address address, Bytes size) override { return device_.hold_mapped(real(address), size); }
  bool allows(Bytes size) const override { return device_.allows(size); }
  bool is_told_not_to_take(Bytes size) const override { return device_.is_told_not_to_take(size); }
  std::optional<Bytes> capacity() const override { return device_.capacity(); }

 private:
  static constexpr Bytes alignment = 2_MiB;

  Address add(Address memory, Bytes size) {
    const Address address = next_;
    next_ = next_ + round_up(size, alignment);
    real_.emplace(address, memory);
    return address;
  }

  Device& device_;
  Address next_{alignment.count};
  std::map<Address, Address> real_;  // by the policy's address: its start on the device
};

/// Follows the recorded segment events of one heap and compares them with what a policy does.
///
/// Segment events precede the request that caused them, so while a request is served the device knows what the recorded
/// allocator did for it. A recorded segment or mapping is granted at its address; one preceded by recorded releases, or
/// of a request that failed, is refused. Anything else is a mismatch: the policy did something that the recorded
/// allocator did not.
class RecordedDevice final : public Device {
 public:
  RecordedDevice(const Trace& trace, const Prepared& heap, std::optional<Bytes> capacity);

  // What is held from the start takes the place of the segment events before the heap's first row: these are not
  // compared, nor counted.

  /// Call before the policy executes row `row` of the heap.
  void begin(std::size_t row);
  /// Call after that. Segment events of this row that were not repeated are mismatches.
  void end();
  /// Call after all rows: remaining segment events are mismatches.
  void finish();

  std::optional<Address> reserve(Bytes size) override;
  void release(Address address, Bytes size) override;
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override;
  bool map(Address address, Bytes size) override;
  void unmap(Address address, Bytes size) override;
  std::optional<Address> hold(Address recorded, Bytes size) override;
  std::optional<Addresses> hold_addresses(Address recorded, Bytes least, Bytes unit) override;
  bool hold_mapped(Address address, Bytes size) override;
  bool allows(Bytes size) const override { return !refused(size); }
  bool is_told_not_to_take(Bytes size) const override { return refused(size); }
  std::optional<Bytes> capacity() const override { return capacity_; }

  /// The first difference, if any.
  struct Mismatch {
    std::uint64_t event = 0;
    std::string expected, happened;
    std::size_t position = 0;                       // of the next recorded segment event, among them
    std::optional<RecordedSegment> recorded, ours;  // what was released, if that is how they differ
  };
  const std::optional<Mismatch>& mismatch() const { return mismatch_; }

  std::uint64_t segment_events() const { return segments_.size() - held_; }
  std::uint64_t matches() const { return matches_; }
  Bytes peak_reserved() const { return peak_reserved_; }                    // of the policy
  Bytes recorded_peak_reserved() const { return recorded_peak_reserved_; }  // of the recording

 private:
  struct SegmentEvent {
    std::uint32_t event = 0;
    EventKind kind = EventKind::unknown;
    Address address;
    Bytes size;
  };

  /// The next recorded segment event, if the policy may cause it in this row.
  const SegmentEvent* due() const;
  /// Whether the device refused the `size` bytes that the policy requests, or no device has that many.
  bool refused(Bytes size) const;
  void take(Bytes size);
  void held();
  /// Counts a match if this is the next recorded event, otherwise notes a mismatch.
  void repeats(EventKind kind, Address address, Bytes size);
  static std::string text_of(const SegmentEvent* event);
  void differ(std::string expected, std::string happened, std::optional<RecordedSegment> released = {});

  const Prepared& heap_;
  std::optional<Bytes> capacity_;
  std::vector<SegmentEvent> segments_;
  std::size_t next_ = 0;
  std::size_t held_ = 0;  // at the front of segments_: they stand for what is held from the start
  std::size_t row_ = 0;
  std::uint32_t until_ = 0;  // segment events before this one are due in this row
  std::uint64_t matches_ = 0;
  Bytes reserved_, peak_reserved_, recorded_peak_reserved_;
  Address elsewhere_;  // for segments that were not recorded
  std::optional<Mismatch> mismatch_;
};

// Runs a policy over a recorded history, with the device answering as recorded.

/// Runs rows 0 .. `rows` - 1 of `heap`. `policy` takes its memory from `device`. Calls `after(row, served)` after each
/// row; returning false stops the run. Rows for which the policy has memory from the start are left out. `served`:
/// whether a request got memory.
template <PoolingPolicy P, class After>
void run_recorded(const Prepared& heap, std::size_t rows, P& policy, RecordedDevice& device, After after) {
  FailedSlots failed(heap.slot_count);
  std::size_t row = 0;
  if constexpr (ResumingPolicy<P>)
    if (heap.initial && policy.resume(*heap.initial)) row = heap.initial->rows;
  for (; row < rows; ++row) {
    const std::uint32_t slot = heap.slot[row];
    const Bytes size = heap.size[row];
    const Op op = heap.op[row];
    bool served = true;
    device.begin(row);
    if (op == Op::alloc) {
      served = policy.allocate(slot, size, heap.pool_stream[row]);
      if (!served) failed.add(slot);
    } else if (op == Op::alloc_failed) {
      served = policy.allocate(heap.slot_count, size, heap.pool_stream[row]);
      if (served) policy.free(heap.slot_count, size);
    } else if (op == Op::empty_cache) {
      policy.empty_cache();
    } else if (op == Op::empty_pool) {
      policy.empty_pool(heap.pool_stream[row]);
    } else if (op == Op::pool_ended) {
      policy.pool_ended(heap.pool_stream[row]);
    } else if (op == Op::pool_restored) {
      if constexpr (RestoringPolicy<P>)
        policy.pool_restored(heap.pool_stream[row], heap.restored_segments[slot].address,
                             heap.restored_segments[slot].size);
    } else if (op == Op::device_synchronized || op == Op::stream_synchronized || op == Op::stream_waits) {
      // not recorded for the heap's own memory
    } else if (failed.contains(slot)) {
      if (op != Op::free_requested) failed.remove(slot);
    } else if (op == Op::free) {
      policy.free(slot, size);
    } else if (op == Op::free_requested) {
      policy.free_requested(slot, size);
    } else {
      policy.free_completed(slot, size);
    }
    device.end();
    if (!after(row, served)) return;
  }
}

// How much memory the recorded program can have been allowed: from the device's reports, refusals, and a limit that
// explains the history.

/// A limit under which torch.native reproduces the history, if the recorded one can't have been
/// Prepared::implied_capacity. The implied one is the largest at which garbage was collected whenever it was; the
/// amount collected each time indicates a smaller one. Each amount leaves few limits to try. None if nothing was
/// collected: PyTorch does so only where the program has set a memory fraction. If none is better, the implied one.
std::optional<Bytes> recorded_capacity(const Trace& trace, const Prepared& heap, const TorchSettings& settings);

/// The bounds that a trace gives on the memory available to a heap.
struct CapacityBounds {
  Bytes least;                  // held at some time, so at least this much was available
  std::optional<Bytes> most;    // the largest capacity that still refuses every refused request; none: nothing was
  std::optional<Bytes> device;  // the device's total memory, as it reports
  bool by_device = false;       // `most` follows, or would follow, from the device's report and not only from refusals
  bool stated = false;          // `most` is what the device, or a recorded memory fraction, says: not only a bound
  std::optional<bool> by_program;  // whether a limit of the program's own refused (a memory fraction); none: unknown
};

/// The bounds of one heap. A refusal shows as a failed request, or as segments released inside a request before it was
/// granted one: what was requested did not fit next to what the heap held. If the device reported its free memory at a
/// refusal, that plus what the heap held is all it could have. Otherwise the samples of the device bound it, and a
/// memory fraction set in the allocator's settings. If no single capacity explains everything (others used the device
/// too), the bound is the most that the heap ever held.
///
/// Segment sizes of failed requests follow torch.native if the heap is PyTorch's. The driver's heap holds its
/// allocations, any other its segments.
class ImpliedCapacity {
 public:
  ImpliedCapacity(Level level, bool is_torch) : level_(level), is_torch_(is_torch) {}

  /// Sets the allocator's settings from here on.
  void set(const std::map<std::string, std::string>& settings);
  /// Processes the next event of the heap, of any kind. `size` of a free: that of its allocation. `value`: as in Event.
  void see(EventKind kind, Bytes size, std::uint64_t value) {
    // Nearly all events of a framework's heap.
    if (level_ != Level::driver && (kind == EventKind::alloc || is_free(kind))) {
      burst_ = {};
      return;
    }
    see_other(kind, size, value);
  }
  /// The device reports its used and free memory.
  void sample(Bytes used, Bytes free);
  CapacityBounds bounds() const;

 private:
  /// Consecutive releases. Their purpose shows in what follows them.
  struct Burst {
    bool running = false;
    bool asked_for = false;  // by the program: empty_cache
    Bytes held_before;
  };

  void see_other(EventKind kind, Bytes size, std::uint64_t value);
  void see_driver(EventKind kind, Bytes size, std::uint64_t value);
  void see_request_fail(Bytes needed, std::optional<Bytes> device_free);
  void refuse(Bytes total);
  void hold(Bytes size);

  Level level_;
  bool is_torch_;
  TorchSettings settings_;
  double fraction_ = 1;
  Bytes held_, most_held_;
  std::optional<Bytes> least_refused_;
  std::optional<Bytes> at_refusals_;  // held plus free at a refusal: the minimum
  std::optional<Bytes> at_samples_;   // held plus free at a sample: the maximum
  std::optional<Bytes> device_;
  std::optional<bool> by_program_;
  Burst burst_;
};

/// The bounds of every heap of a trace, event by event, whether the trace is in memory or streamed.
class ImpliedCapacities {
 public:
  /// `tables` may grow, and must outlive this object.
  explicit ImpliedCapacities(const Tables& tables) : tables_(&tables) {}

  /// `heap`: that of the event; for a free, that of its allocation. `size` and `value` as for ImpliedCapacity.
  void see(EventKind kind, HeapId heap, const Origin& origin, Bytes size, std::uint64_t value) {
    if (index(heap) >= heaps_.size() || kind == EventKind::memory_info || kind == EventKind::settings) [[unlikely]]
      return see_other(kind, heap, origin, size, value);
    heaps_[index(heap)].see(kind, size, value);
  }
  /// `most` is set only for PyTorch's heaps, and for a driver's heap whose device was sampled: other pools don't record
  /// their size.
  CapacityBounds bounds(HeapId heap) const;

 private:
  void see_other(EventKind kind, HeapId heap, const Origin& origin, Bytes size, std::uint64_t value);

  const Tables* tables_;
  std::vector<ImpliedCapacity> heaps_;
  std::vector<std::map<std::string, std::string>> settings_;  // by heap
};

/// The bounds of all heaps of a trace, by HeapId.
std::vector<CapacityBounds> capacity_bounds(const Trace& trace);

/// The default device of a replay: with the implied capacity, known to the program in the way of a memory fraction;
/// unlimited if nothing implies one.
DeviceModel implied_device(const Prepared& heap);

}  // namespace memreel
