// SPDX-License-Identifier: Apache-2.0
// What is live at an instant: allocations and segments of every heap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "formats/model/flat_map.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel {

struct LiveAllocation {
  AllocationId allocation = AllocationId::none;
  OriginId origin = OriginId::none;
  StackId stack = StackId::none;
  Address address;
  Bytes size;
  bool pending = false;  // free requested, not completed

  friend bool operator==(const LiveAllocation&, const LiveAllocation&) = default;
};

struct LiveSegment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;
  bool mapped = false;  // by segment_map; else by segment_alloc

  friend bool operator==(const LiveSegment&, const LiveSegment&) = default;
};

/// The state of all heaps at one instant, in canonical order.
struct HeapSnapshot {
  std::uint64_t event = 0;                  // how many events precede it
  std::uint64_t missing_events = 0;         // how many of those were lost to damage and could affect this state
  std::vector<LiveAllocation> allocations;  // by allocation
  std::vector<LiveSegment> segments;        // by address, then heap

  friend bool operator==(const HeapSnapshot&, const HeapSnapshot&) = default;
};

/// A heap's bytes at an instant.
struct HeapState {
  HeapId heap = HeapId::none;
  Bytes live;      // requested and not freed
  Bytes reserved;  // segments held

  friend bool operator==(const HeapState&, const HeapState&) = default;
};

/// Follows a trace event by event and tracks what is live. Memory: what is live, nothing for what is gone.
///
/// Recordings have gaps, so two rules keep the state plausible: an allocation at the address of a live one in the same
/// heap ends that one, and a segment replaces the parts of older ones that it covers. Adjacent segments of the same
/// origin that were mapped separately count as one segment.
class LiveSet {
 public:
  /// `tables` give the heap of an origin; they may grow, and must outlive the set.
  explicit LiveSet(const Tables& tables) : tables_(&tables) {}

  /// Applies the next event. In a free, fills in missing fields: `allocation` from the heap and the address, or address
  /// and size from `allocation`. They stay unchanged if there is no such live allocation.
  void apply(Event& event);

  /// Adds the contents of a snapshot. Applied to an empty set, this restores the snapshot's state.
  void add(const HeapSnapshot& snapshot);

  /// The allocation in `heap` at exactly `address`: requested and not completed. Else none.
  AllocationId at(HeapId heap, Address address) const;

  /// Every heap used so far, by ID.
  const std::vector<HeapState>& heaps() const { return heaps_; }

  /// Empty if it was not used.
  HeapState state_of(HeapId heap) const;

  /// Fills in everything except the event counts.
  HeapSnapshot snapshot() const;

 private:
  using Segments = std::map<std::pair<HeapId, Address>, LiveSegment>;

  HeapId heap_of(OriginId origin) const { return (*tables_)[origin].heap; }
  HeapState& used(HeapId heap);
  std::uint32_t slot_of(AllocationId allocation);
  void insert(const LiveAllocation& allocation);
  void remove(std::uint32_t slot);
  void free(Event& event);
  void add_segment(LiveSegment segment);
  /// Removes a range from the segments of `heap`, cutting partly covered ones.
  void cut_segments(HeapId heap, Address begin, Address end);

  const Tables* tables_;
  std::vector<LiveAllocation> slots_;  // empty ones have no allocation
  std::vector<std::uint32_t> empty_slots_;
  FlatMap<HeapAddress, HeapAddressHash> by_place_;
  /// Created at the first free that names its allocation: not needed for frees by address.
  std::optional<FlatMap<AllocationId, AllocationHash>> by_allocation_;
  Segments segments_;
  std::vector<HeapState> heaps_;
};

}  // namespace memreel
