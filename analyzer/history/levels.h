// Ties the two levels of a recording: what a framework sub-allocates is what it got from the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "formats/model/flat_map.h"
#include "formats/model/trace.h"

namespace memreel {

/// A recording of both levels shows a framework's segments as the driver's allocations (or mappings) that its own
/// allocations lie in. Makes them what they are: segment events of the framework's heap, at the same places, with the
/// same stacks and times. What is left at the driver's level is memory that nobody sub-allocates, so that nothing is
/// counted twice. Created memory (cuMemCreate) that such a mapping is of goes with it. Where a heap has segment events
/// of its own, the driver's allocations and mappings that make up such a segment are left out. Returns how many of the
/// driver's there were.
///
/// Memory that the framework never allocated from while it held it stays the driver's.
std::size_t tie_levels(Trace& trace);

/// What becomes of the events of a trace whose levels are tied. Memory: what the driver gave to frameworks.
class TiedLevels {
 public:
  /// How many of the driver's allocations and mappings are a framework's.
  std::size_t count() const { return count_; }

  /// Makes the event with this number in the trace what it is; `tables` get the origins that this takes. False: it is
  /// left out.
  bool rewrite(Event& event, std::uint32_t number, Tables& tables);
  /// The same once all events have been rewritten, and the tables have all origins.
  bool rewrite_again(Event& event, std::uint32_t number) const;

 private:
  friend class LevelTies;

  struct Fate {
    HeapId owner = HeapId::none;
    bool dropped = false;
    Address address;  // of what the driver gave
    Bytes size;
  };
  struct Hash {
    std::uint64_t operator()(AllocationId id) const { return mix_bits(index(id)); }
  };

  void add(AllocationId allocation, const Fate& fate);
  template <class OriginIn>
  bool rewrite(Event& event, std::uint32_t number, const OriginIn& origin_in) const;

  std::size_t count_ = 0;
  std::vector<Fate> fates_;
  FlatMap<AllocationId, Hash> of_allocation_;  // row of fates_
  std::map<std::uint32_t, Fate> mappings_;     // by event
  std::map<std::pair<HeapId, OriginId>, OriginId> origins_;
};

/// Finds out what belongs to whom, in a pass of its own. Memory: what the driver gave.
class LevelTies {
 public:
  /// `tables` may grow, and must outlive this.
  explicit LevelTies(const Tables& tables);
  LevelTies(LevelTies&&) noexcept;
  LevelTies& operator=(LevelTies&&) noexcept;
  ~LevelTies();

  /// The next event and its number. Frees need not have the address and size of their allocation.
  void see(const Event& event, std::uint32_t number);
  TiedLevels finish() &&;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memreel
