// SPDX-License-Identifier: Apache-2.0
// Recordings that began late, for policies that did not serve the program before: they place what was live then
// themselves. How much of its cached memory they would have held, and where in it the older allocations would have
// lain, no recording tells, but it decides how later requests fit in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/engine/policy_entry.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/replay/replay.h"

namespace memreel {

/// Whether a policy keeps memory that the program does not use, and decides online: all but bounds and plans, which are
/// about what is live, and cuda.malloc.
bool keeps_free_memory(const PolicySpec& policy);

/// One of the ways in which a heap may have begun: the program allocates the blocks in use and some of the free ones,
/// then frees the latter.
struct Beginning {
  /// 0: oldest first, as far as addresses tell; 1: backwards; others are as good as random, the same in every run.
  std::uint64_t order = 0;
  Bytes cached;  // of the free blocks, those that fit into this, in that order
};

/// Oldest first, with as much cached memory as the program needs beyond that later: at `peak_live` it holds as
/// much as earlier steps did, if they were like those recorded. No setting can save memory that was cached beyond it.
Beginning likely_beginning(const InitialState& initial, Bytes peak_live);

/// The heap must have an initial state and its rows; the result has rows in place of the state.
Prepared with_beginning(const Prepared& heap, Beginning beginning);

/// What a policy is run on.
struct HeapRows {
  const Prepared* heap = nullptr;
  const RowSource* rows = nullptr;  // null: they are in the heap
};

/// A heap as different policies begin with it. Refers to the heap and its rows.
class BegunHeap {
 public:
  /// `rows`: of a heap with empty columns, else null.
  explicit BegunHeap(const Prepared& heap, const RowSource* rows = nullptr);
  BegunHeap(BegunHeap&&) noexcept;
  ~BegunHeap();

  /// The heap itself if it did not begin late, if the policy goes on from what was held then, or keeps no free memory;
  /// else its likely beginning, which this object owns. Not thread-safe.
  HeapRows for_policy(const BoundPolicy& policy);

 private:
  class LateRows;
  bool begins_afresh(const BoundPolicy& policy) const;
  void make_likely();

  HeapRows recorded_, likely_;
  std::unique_ptr<Prepared> likely_heap_;
  std::unique_ptr<LateRows> likely_rows_;
};

/// The likely beginnings of those that began late, the others as they are: what some policies could go on from and
/// others could not would count as saved by the others.
std::vector<Prepared> begun_afresh(std::span<const Prepared> heaps);

/// Whether any heap began late.
bool any_late(std::span<const Prepared> heaps);

/// Calls `try_heaps` with other beginnings of the late heaps: orders of their older allocations, with all cached memory
/// and without any; fewer for long histories. Not at all if none is late.
void for_each_beginning(std::span<const Prepared> heaps,
                        const std::function<void(std::span<const Prepared>)>& try_heaps);

/// The least and the most of a figure under all beginnings tried; known within 1 %: nothing.
class BeginningRange {
 public:
  explicit BeginningRange(Bytes likely) : least_(likely), most_(likely) {}
  void add(Bytes figure) {
    least_ = std::min(least_, figure);
    most_ = std::max(most_, figure);
  }
  std::optional<std::pair<Bytes, Bytes>> wide() const;

 private:
  Bytes least_, most_;
};

/// By policy and heap: the least and the most that was reserved at the peak.
using LateRanges = std::map<std::pair<std::string, HeapId>, std::pair<Bytes, Bytes>>;

/// What policies may have reserved on heaps that began late, by for_each_beginning(). `results` are those of the likely
/// beginning. Only for policies that keep free memory.
LateRanges late_start_ranges(std::span<const ReplayResult> results, std::span<const Prepared> heaps,
                             const ReplayOptions& options);

/// Of the policy and the heap of `result`; none: it started from what was held, or knows within 1 %.
std::optional<std::pair<Bytes, Bytes>> range_of(const ReplayResult& result, const LateRanges& ranges);

}  // namespace memreel
