// SPDX-License-Identifier: Apache-2.0
// Links the two levels of a recording: what a framework sub-allocates is what it got from the driver.
#pragma once

#include <map>
#include <memory>

#include "formats/model/flat_map.h"
#include "formats/model/trace.h"

namespace memreel {

/// In a recording of both levels, a framework's segments appear as driver allocations (or mappings) that its
/// allocations lie in. Turns them into segment events of the framework's heap, at the same positions, with the same
/// stacks and times. What remains at driver level is memory that no framework sub-allocates, so nothing is counted
/// twice. Created memory (cuMemCreate) behind such a mapping goes with it. If a heap has its own segment events, drops
/// the driver allocations and mappings that make up such a segment. Returns the number of these driver allocations and
/// mappings.
///
/// Memory that the framework never allocated from while it held it stays the driver's.
std::size_t tie_levels(Trace& trace);

/// Whether the addresses of a pool's events are handles: memory made by cuMemCreate, which is mapped elsewhere.
bool is_created_memory(const Tables& tables, PoolId pool);

/// The final form of the events of a trace with linked levels. Memory: the driver's allocations for frameworks.
class TiedLevels {
 public:
  /// The number of driver allocations and mappings that belong to a framework.
  std::size_t count() const { return count_; }

  /// Rewrites the event with this number in the trace; adds the necessary origins to `tables`. Returns false if the
  /// event is dropped.
  bool rewrite(Event& event, std::uint32_t number, Tables& tables);
  /// All events of a trace, in place.
  void rewrite(Trace& trace);
  /// The same once all events have been rewritten and the tables have all origins.
  bool rewrite_again(Event& event, std::uint32_t number) const;

 private:
  friend class LevelTies;

  struct Fate {
    HeapId owner = HeapId::none;
    bool dropped = false;
    Address address;  // of the driver's memory
    Bytes size;
  };

  void add(AllocationId allocation, const Fate& fate);
  template <class OriginIn>
  bool rewrite(Event& event, std::uint32_t number, const OriginIn& origin_in) const;

  std::size_t count_ = 0;
  std::vector<Fate> fates_;
  FlatMap<AllocationId, AllocationHash> of_allocation_;  // index into fates_
  std::map<std::uint32_t, Fate> mappings_;               // by event
  std::map<std::pair<HeapId, OriginId>, OriginId> origins_;
};

/// Determines ownership, in a separate pass. Memory: the driver's allocations.
class LevelTies {
 public:
  /// `tables` may grow, and must outlive this object.
  explicit LevelTies(const Tables& tables);
  LevelTies(LevelTies&&) noexcept;
  LevelTies& operator=(LevelTies&&) noexcept;
  ~LevelTies();

  /// Processes the next events; `number` is the first one's. Frees need not have the address and size of their
  /// allocation.
  void see(const EventColumns& events, std::uint32_t number);
  TiedLevels finish() &&;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memreel
