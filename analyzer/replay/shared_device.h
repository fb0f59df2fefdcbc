// SPDX-License-Identifier: Apache-2.0
// Several heaps replayed in one order of time: they share a device, also with what else is on it.
#pragma once

#include <span>

#include "analyzer/analysis/history/device_memory.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "formats/model/units.h"

namespace memreel {

/// A heap whose rows come from elsewhere, and without the steps, which end at rows.
Prepared without_rows(const Prepared& heap);

/// A device while its heaps are replayed, each by the same policy.
struct SharedReplay {
  std::vector<ReplayResult> heaps;  // in the given order
  Bytes peak_reserved;              // of the device: of all heaps and what is beside them, at one instant
  std::uint32_t peak_event = 0;     // index in the trace
  Bytes beside_at_peak;
  std::uint64_t failed_allocations = 0;
  bool unfinished = false;  // the deadline passed first
};

/// The heaps of one device, cut into turns: rows of one heap during which nothing changes for the others. Refers to
/// what it is made of.
class SharedDevice {
 public:
  /// `beside`: what else is on the device, as recorded.
  SharedDevice(std::vector<const Prepared*> heaps, std::span<const HeldFrom> beside);

  /// Without a device, each heap has the one that its own recorded failures imply, and no other limit. With a capacity,
  /// a request fails when its heap, the others and what is beside them would exceed it.
  ///
  /// One heap is replayed after the other, each with what the others held at each instant; again, as long as that
  /// changes what any of them does. What comes first in the trace is settled first, so this ends with what the heaps
  /// would do at the same time; the number of rounds is limited, and a device that is over its capacity then counts as
  /// a failed request.
  SharedReplay replay(const BoundPolicy& policy, const std::optional<DeviceModel>& device,
                      const RunOptions& options) const;

  /// The least capacity without a failure, a multiple of the policy's unit; none if no capacity is enough, or the
  /// deadline passes first.
  std::optional<Bytes> min_capacity(const BoundPolicy& policy, std::chrono::steady_clock::time_point deadline) const;

 private:
  friend class HeapTurns;

  SharedReplay replay_here(const BoundPolicy& policy, const std::optional<DeviceModel>& device,
                           const RunOptions& options) const;

  struct Turn {
    std::uint32_t heap = 0;  // index in heaps_; none_: what is beside changes
    std::uint32_t event = 0;
    std::uint64_t begin = 0, end = 0;  // rows
    Bytes beside;
  };
  /// What the turn's heap holds.
  struct Use {
    Bytes most, end;

    friend bool operator==(const Use&, const Use&) = default;
  };
  static constexpr std::uint32_t none_ = 0xFFFF'FFFF;

  /// By turn of the heap, what is held by all else.
  std::vector<Bytes> held_by_others(std::uint32_t heap, std::span<const Use> uses) const;
  void find_peak(std::span<const Use> uses, SharedReplay& result) const;
  std::uint64_t times_over(Bytes capacity, std::span<const Use> uses) const;

  std::vector<const Prepared*> heaps_;
  std::vector<Turn> turns_;
};

}  // namespace memreel
