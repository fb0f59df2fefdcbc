// The history of PyTorch's pinned host memory: `host_traces` of a snapshot.
//
// Source: CachingHostAllocatorImpl in ATen/core/CachingHostAllocator.h of PyTorch 2.15 and pinned memory's part of
// ATen/cuda/CachingHostAllocator.cpp. What it does is the policy torch.host's
// (analyzer/policies/torch_host.h); these are the rules by which its records are told apart.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "formats/import/torch/destroyed_pools.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/units.h"

namespace memreel::torch {

struct HostRules {
  static constexpr Bytes unlimited{std::numeric_limits<std::uint64_t>::max()};

  Bytes round_threshold = unlimited;  // pinned_max_round_threshold_mb: larger requests are not rounded
  Bytes cached = unlimited;           // pinned_max_cached_size_mb: larger blocks are given back when freed, not rounded
  Bytes reserve;                      // pinned_reserve_segment_size_mb; 0: none

  /// From a snapshot's `allocator_settings`.
  static HostRules of(const Snapshot& snapshot);
  /// The settings under the names that torch.host's parameters have, and `kind`, which names the policy.
  std::vector<std::pair<std::string, std::string>> settings() const;

  /// What the allocator makes of a request.
  Bytes rounded(Bytes request) const;
};

/// One history as what it is made of.
struct HostHistory {
  DeviceHistory allocator;            // of the caching allocator
  std::vector<ReleaseCall> releases;  // of it: empty_cache, and in front of it pool_end of pools that were over
  DeviceHistory registered;           // what the program page-locked itself (cudaHostRegister)
};

/// Tells the program's own registrations from what the allocator did: one has a size that the allocator does not make,
/// or comes while the allocator has a block that fits, or is given back while the allocator keeps what it has cached.
/// Memory is given back only when it is too large to be cached and by empty_cache(), which gives back all that is free
/// of the default pool and of pools that are over.
///
/// Blocks in the reserve segment have no segments of their own: one segment for all of them stands in front of the
/// first segment that the allocator got, at the address of the first block in it. What empty_cache() drops of it is
/// lost.
///
/// `is_whole`: the history has a beginning; else nothing is a registration but what has another size, and the reserve
/// segment is not found.
HostHistory split_host_history(const DeviceHistory& history, const PoolStreams& pool_streams, const HostRules& rules,
                               bool is_whole);

}  // namespace memreel::torch
