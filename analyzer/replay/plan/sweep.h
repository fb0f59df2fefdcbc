// SPDX-License-Identifier: Apache-2.0
// Sweeps time and places what begins, as an allocator would, but knowing each lifetime.
//
// Of the gaps that fit, one is taken that leaves little and whose neighbour ends when the new buffer does. For example,
// 4 bytes are wanted until t = 9:
//
//   | a until 3 | 4 free | c until 4 | 5 free | b until 9 |
//
// They fit exactly between a and c, but would soon lie alone between two gaps. Next to b they leave 1 byte for now, and
// from t = 4 on, one gap from a to them, and one instead of both from t = 9 on.
//
// Which preference is best changes all the time: every few hundred buffers, the sweep goes on from where one of them
// has lost least to small gaps. Where none keeps below the peak that is wanted, the sweep goes back to when less was
// alive, and comes again with other preferences, following the best few ways at a time.
//
// Allocators that predict lifetimes place what ends together side by side, too (Maas et al., "Learning-based memory
// allocation for C++ server workloads", ASPLOS 2020).
#pragma once

#include <atomic>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/replay/plan/problem.h"

namespace memreel::plan {

using Row = std::uint32_t;  // a buffer of a problem

/// What a sweep prefers.
struct Preference {
  /// How many mean sizes may be left over for a neighbour that ends at the same time rather than a mean lifetime apart.
  double together = 0.3;
  /// At how many mean sizes what is left over counts for a quarter, since others will fit there; 0: all of it counts.
  double reuse = 0;
};

/// Where a sweep begins, and what it meets.
struct Course {
  bool forwards = true;
  std::vector<Row> stack;   // alive where it begins, placed, by offset
  std::vector<Row> begins;  // to be placed: all that begins later
  /// Placed, begins later, and is kept free. What then fits nowhere below SweepLimits::enough lies above, to be placed
  /// by other means.
  std::vector<Row> awaited;
};

struct SweepLimits {
  Bytes enough;                                            // gaps above are taken only if there is no other
  Bytes below{std::numeric_limits<std::uint64_t>::max()};  // gives up at this peak
  std::uint64_t again = 0;                                 // how many buffers may be placed again, about
  const std::atomic<Bytes>* found = nullptr;               // gives up at it, too: found elsewhere meanwhile
};

struct Swept {
  std::vector<Row> rows;       // in order of begin
  std::vector<Bytes> offsets;  // of the rows; given up, of the first of them
  Bytes peak;                  // of them and of the stack
};

/// `offsets` has those of the stack, and of what is awaited.
Swept sweep(const Problem& problem, const Course& course, const std::vector<Bytes>& offsets,
            std::span<const Preference> preferences, const SweepLimits& limits);

}  // namespace memreel::plan
