// How usable the free memory inside a policy's segments is: metrics that need to scan every free block, and are
// therefore sampled, not computed after every operation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "analyzer/engine/policy.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"

namespace memreel {

/// Scans a policy's free blocks.
class FreeMetrics {
 public:
  /// At the points of the series.
  template <PlacingPolicy P>
  void sample(const P& policy) {
    std::array<Bytes, FreeMemory::sizes.size()> below{};
    Bytes free;
    policy.for_each_free([&](const FreeBlock& block) {
      free += block.size;
      for (std::size_t i = 0; i < below.size(); ++i)
        if (block.size < FreeMemory::sizes[i]) below[i] += block.size;
    });
    if (free.count == 0) return;
    for (std::size_t i = 0; i < below.size(); ++i)
      found_.unusable[i] =
          std::max(found_.unusable[i], static_cast<double>(below[i].count) / static_cast<double>(free.count));
  }

  /// Call when `policy` took more from the device than it ever held, or failed, for `requested` bytes in `pool_stream`:
  /// finds its free blocks that were large enough but belonged to others.
  template <PlacingPolicy P>
  void see_growth(const P& policy, const PoolStream& pool_stream, Bytes requested, std::uint32_t event) {
    Bytes other_stream, other_pool;
    policy.for_each_free([&](const FreeBlock& block) {
      if (block.size < requested) return;
      if (block.pool != pool_stream.pool)
        other_pool += block.size;
      else if (block.stream && *block.stream != pool_stream.stream)
        other_stream += block.size;
    });
    note(found_.stranded_stream, other_stream, event);
    note(found_.stranded_pool, other_pool, event);
  }

  /// Whether see_growth() could raise its maximum: it scans every block, and a program can grow at every request.
  bool could_grow(Bytes free) const {
    return free > std::min(found_.stranded_stream.bytes, found_.stranded_pool.bytes);
  }

  const FreeMemory& found() const { return found_; }

 private:
  static void note(StrandedMemory& most, Bytes now, std::uint32_t event) {
    if (now > most.bytes) most = {.bytes = now, .event = event};
  }

  FreeMemory found_;
};

}  // namespace memreel
