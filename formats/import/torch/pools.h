// SPDX-License-Identifier: Apache-2.0
// Assigns each record of a history to its memory pool.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/preexisting.h"
#include "formats/import/torch/recorded_heap.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/flat_map.h"
#include "formats/torch/settings.h"

namespace memreel::torch {

// What a history reveals about which segments can be in one pool.

/// A piece of released memory.
struct GivenBack {
  UnitId unit = UnitId::none;
  bool small = false;
  bool mapped = false;
  std::uint64_t stream = 0;
  FreeBlock block;  // of which it was part
};

/// What the program released at once, in order.
struct GivingBack {
  std::size_t entry = 0;  // the first
  std::vector<GivenBack> parts;
  std::vector<UnitId> kept;     // that also had unused memory, or some whose use was not complete
  bool is_empty_cache = false;  // by that name; else it may also be several pools, each released at its end
};

struct PoolEvidence {
  struct UnitFacts {
    UnitId before = UnitId::none;                                    // what served the previous request on its stream
    std::size_t last_needed = 0;                                     // its pool was not destroyed before this entry
    std::size_t released = std::numeric_limits<std::size_t>::max();  // the entry that first released any of it
    bool not_default = false;
    bool differs = false;  // from some other one, as `differ` says
    std::optional<PoolKey> known;
    // Of an expandable segment: a pool has one at a time for each stream and size class.
    std::optional<std::pair<std::uint64_t, bool>> range;  // stream, small
    std::size_t begin = 0;                                // number of entries after which it exists
    std::size_t end = std::numeric_limits<std::size_t>::max();
  };
  /// An unordered pair of units.
  struct Pair {
    UnitId first = UnitId::none, second = UnitId::none;
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  struct PairHash {
    std::uint64_t operator()(const Pair& pair) const {
      return mix_bits(std::uint64_t{static_cast<std::uint32_t>(pair.first)} << 32U |
                      static_cast<std::uint32_t>(pair.second));
    }
  };
  std::vector<UnitFacts> units;
  FlatMap<Pair, PairHash> differ;  // are in two different pools; besides expandable segments that exist at once
  std::vector<GivingBack> givings;
  std::vector<UnitId> unit_of;       // by entry; for those with an address
  std::vector<UnitId> initial_unit;  // of each segment held before the history

  /// Whether two units can't be in one pool.
  bool are_apart(UnitId a, UnitId b) const {
    const UnitFacts &one = units[static_cast<std::size_t>(a)], &other = units[static_cast<std::size_t>(b)];
    if (a != b && one.range && one.range == other.range &&
        std::max(one.begin, other.begin) < std::min(one.end, other.end))
      return true;
    return one.differs && other.differs && differ.find({std::min(a, b), std::max(a, b)}) != absent;
  }
};

/// Counts the work of finding pools in a snapshot, so that contrived input can't take forever: where each segment may
/// be in a pool of its own, the search takes the square of their number.
class Effort {
 public:
  /// `entries`: in all histories of the snapshot.
  explicit Effort(std::uint64_t entries) : most_(std::clamp(50 * entries, least, most)) {}
  void add(std::uint64_t steps) { steps_ += steps; }
  bool spent() const { return steps_ > most_; }
  std::uint64_t left() const { return most_ - std::min(most_, steps_); }

 private:
  static constexpr std::uint64_t least = 1'000'000, most = 100'000'000;  // some milliseconds, a few seconds
  std::uint64_t most_, steps_ = 0;
};

/// None if it would take too long. `initial`: what was held before the history. `runs` are all releases in it, in
/// order.
std::optional<PoolEvidence> find_pool_evidence(const DeviceHistory& history,
                                               std::span<const PreexistingSegment> initial,
                                               const PoolStreams& pool_streams, const TorchSettings& rules,
                                               std::span<const ReleaseRun> runs, Effort& effort);

/// The pool of each unit: the default one unless contradicted; else, in this order, that of the unit that served the
/// previous request, those of the segments allocated before, latest first, and other known ones; else a new one, {1,
/// 1}, {2, 2} and so on. None if it would take too long.
///
/// Units that `differ` are in different pools. A pool that releases anything is destroyed, so none of it is needed
/// later. In one release, the default pool's memory comes first, its large blocks before its small ones; then each
/// other pool's contiguously, small ones first; blocks of a class in the order of stream, size and address, mapped ones
/// last. A release without the default pool is that of pools being destroyed, else that of all destroyed pools.
std::optional<std::vector<PoolKey>> choose_pools(const PoolEvidence& evidence, Effort& effort);

/// Fills in the pool of entries that don't state it (PyTorch up to 2.11 records none): that of the segment the address
/// was in at that time. Segments alive at the end state their pool; those freed earlier are assigned to the default
/// pool (but see empty_cache.h), unless they were unmapped next to memory of the same stream whose pool is known.
void infer_pools(DeviceHistory& history, PoolStreams& pool_streams);

}  // namespace memreel::torch
