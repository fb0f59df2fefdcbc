// SPDX-License-Identifier: Apache-2.0
// How much memory the recorded program can have been allowed: from the device's reports, refusals, and a limit that
// explains the history.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"
#include "formats/model/event.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/torch/settings.h"

namespace memreel {

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
  bool is_torch(HeapId heap) const;

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
