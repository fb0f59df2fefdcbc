// The history of PyTorch's pinned host memory: `host_traces` of a snapshot.
//
// Source: CachingHostAllocatorImpl in ATen/core/CachingHostAllocator.h of PyTorch 2.15 and the pinned memory part of
// ATen/cuda/CachingHostAllocator.cpp. The policy torch.host (analyzer/policies/torch_host.h) implements its behaviour;
// this tells its records from others.
#pragma once

#include <vector>

#include "formats/import/torch/empty_cache.h"
#include "formats/import/torch/snapshot.h"
#include "formats/torch/settings.h"

namespace memreel::torch {

/// One history, split into its sources.
struct HostHistory {
  DeviceHistory allocator;            // the caching allocator's
  std::vector<ReleaseCall> releases;  // the allocator's empty_cache, preceded by pool_end for destroyed pools
  DeviceHistory registered;           // what the program itself page-locked (cudaHostRegister)
};

/// Separates the program's own registrations from the allocator's actions: a registration has a size that the allocator
/// does not make, or comes while the allocator has a block that fits, or is released while the allocator keeps its
/// cache. The allocator releases memory only if it is too large to be cached, and in empty_cache(), which releases
/// everything free in the default pool and in destroyed pools.
///
/// Blocks in the reserve segment have no segments of their own: a single segment for all of them precedes the first
/// segment that the allocator got, at the address of its first block. What empty_cache() drops of it is lost.
///
/// `is_whole`: the history has its beginning; otherwise only unusual sizes count as registrations, and the reserve
/// segment is not found.
HostHistory split_host_history(const DeviceHistory& history, const PoolStreams& pool_streams,
                               const TorchHostSettings& rules, bool is_whole);

}  // namespace memreel::torch
