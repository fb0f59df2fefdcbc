// What a history tells of which segments may be of one pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "formats/import/torch/allocator_rules.h"
#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/recorded_heap.h"
#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

/// Something that was given back.
struct GivenBack {
  UnitId unit = UnitId::none;
  bool small = false;
  bool mapped = false;
  std::uint64_t stream = 0;
  FreeBlock block;  // that it was of
};

/// What the program gave back at once, in order.
struct GivingBack {
  std::size_t entry = 0;  // the first
  std::vector<GivenBack> parts;
  std::vector<UnitId> kept;     // that had unused memory, too, or some whose use was not over
  bool is_empty_cache = false;  // by that name; else it may also be what pools that end give back, one after another
};

struct PoolEvidence {
  struct UnitFacts {
    UnitId before = UnitId::none;                                    // what served the request before, on its stream
    std::size_t last_needed = 0;                                     // the entry before which its pool was not over
    std::size_t released = std::numeric_limits<std::size_t>::max();  // the entry: any of it, first
    bool not_default = false;
    std::optional<PoolKey> known;
  };
  std::vector<UnitFacts> units;
  std::map<UnitId, std::set<UnitId>> differ;  // of two pools
  std::vector<GivingBack> givings;
  std::vector<UnitId> unit_of;  // by entry; of those with an address
};

/// Counts what finding pools takes, so that nonsense does not take for ever.
class Effort {
 public:
  void add(std::uint64_t steps) { steps_ += steps; }
  bool spent() const { return steps_ > most; }

 private:
  static constexpr std::uint64_t most = 100'000'000;  // that no program's history takes: some seconds
  std::uint64_t steps_ = 0;
};

/// Nothing when it would take too long to tell. `runs` are all releases of the history, in order.
std::optional<PoolEvidence> find_pool_evidence(const DeviceHistory& history, const PoolStreams& pool_streams,
                                               const AllocatorRules& rules, std::span<const ReleaseRun> runs,
                                               Effort& effort);

/// The pool of each unit. The default one where nothing contradicts it; then that of what served the request before,
/// those of the segments got before, the latest first, and what else is known; then a new one, {1, 1}, {2, 2} and so
/// on. Nothing when it would take too long to tell.
///
/// Units that `differ` are not of one pool. A pool that gives anything back is over, so nothing of it is needed later.
/// Of what is given back at once, the default pool's comes first, its large blocks before its small ones; then each
/// pool's in one piece, small ones first; blocks of a class in the order of stream, size and address, mapped ones last.
/// What is given back without the default pool is that of pools that end, else that of all pools that are over.
std::optional<std::vector<PoolKey>> choose_pools(const PoolEvidence& evidence, Effort& effort);

}  // namespace memreel::torch
