// SPDX-License-Identifier: Apache-2.0
// Places outward from the instant at which most is alive, first what is alive then, without any gap.
//
// From there, time is swept in both directions, as an allocator would see it, but each lifetime is known. Of the gaps
// that fit, one is taken that leaves little and whose neighbour ends when the new buffer does. For example, 4 bytes are
// wanted until t = 9:
//
//   | a until 3 | 4 free | c until 4 | 5 free | b until 9 |
//
// They fit exactly between a and c, but would soon lie alone between two gaps. Next to b they leave 1 byte for now, and
// from t = 4 on, one gap from a to them, and one instead of both from t = 9 on.
//
// Which preference is best changes all the time: every few hundred buffers, the sweep goes on from where one of them
// has lost least to small gaps.
//
// The further from the busiest instant, the less is alive, so that more may be wasted: gaps between what is placed grow
// as room for them does. Other instants that are as busy are where a plan exceeds LOAD.
//
// Buchsbaum et al. (see plan.h) box together what is alive at one instant; allocators that predict lifetimes place what
// ends together side by side (Maas et al., "Learning-based memory allocation for C++ server workloads", ASPLOS 2020).
#pragma once

#include <limits>
#include <span>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// What a sweep prefers.
struct Preference {
  /// How many mean sizes may be left over for a neighbour that ends at the same time rather than a mean lifetime apart.
  double together = 0.3;
  /// At how many mean sizes what is left over counts for a quarter, since others will fit there; 0: all of it counts.
  double reuse = 0;
  /// Stacks what ends last at the bottom, else what begins first: then no gap that opens near the instant after it, or
  /// before it, is apart from the others.
  bool by_end = true;
};

/// By several preferences, of which the best at each time counts; nothing if the peak would not be below `below`. Gaps
/// above `enough` are taken only if there is no other. Threads make no difference to the result.
Placement place_outward(const Problem& problem, std::span<const Preference> preferences, Bytes enough,
                        Bytes below = Bytes{std::numeric_limits<std::uint64_t>::max()}, unsigned threads = 1);

}  // namespace memreel::plan
