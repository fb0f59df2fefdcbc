// SPDX-License-Identifier: Apache-2.0
// Private pools of CUDA graphs and torch.cuda.MemPool: what each holds, and what each capture added to it.
#pragma once

#include <algorithm>
#include <array>

#include "analyzer/analysis/category/activity.h"
#include "analyzer/describe/fields.h"
#include "formats/model/trace.h"

namespace memreel {

/// A run of requests to a private pool: the capture of a CUDA graph, or a use of a torch.cuda.MemPool.
struct PoolUse {
  std::uint64_t event = 0;        // of its first request
  StackId stack = StackId::none;  // of its first request
  std::uint64_t allocations = 0;
  Bytes grew;  // what the pool reserved for it: the marginal cost of this graph
  Bytes used;  // the highest that its own requests held at once
  Bytes kept;  // of these, still live when the pool's next use begins or, for the last one, when the trace ends
};

template <>
struct FieldsOf<PoolUse> {
  static const std::array<ResultField<PoolUse>, 6> all;
};

/// Bytes are requested bytes, except for `reserved`.
struct PrivatePool {
  PoolId pool = PoolId::default_pool;
  bool has_captures = false;  // its stacks or id show that CUDA graphs were captured into it
  Bytes reserved, live;       // when the trace ends
  Bytes peak_reserved, peak_live;
  std::vector<PoolUse> uses;

  /// Only the pool's own next use can take it. Includes rounding.
  Bytes reusable() const { return reserved - std::min(live, reserved); }
  /// What its uses would need beyond the pool's peak if each had its own pool.
  Bytes shared() const;
  /// What each use after the first reserved, as their median; none if there is one use.
  std::optional<Bytes> marginal() const;
};

template <>
struct FieldsOf<PrivatePool> {
  static const std::array<ResultField<PrivatePool>, 11> all;
};

/// The private pools of a heap that served allocations, largest peak first.
struct HeapPools {
  HeapId heap = HeapId::none;
  std::vector<PrivatePool> pools;
};

/// Those of each heap that has any. A driver has none: what recordings call its pools are kinds of its memory.
///
/// A use belongs to the thread that begins it; requests of other threads meanwhile count towards it: a backward pass
/// runs on its own threads. It ends where its thread allocates elsewhere in the heap, or where another capture begins
/// (torch/cuda/graphs.py on the stack). Two captures with neither between them are one. Time: linear.
std::vector<HeapPools> private_pools(const Trace& trace, const Activity& activity);

}  // namespace memreel
