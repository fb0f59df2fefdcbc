// SPDX-License-Identifier: Apache-2.0
// Recordings that began late, for policies that did not serve the program before: they place what was live then
// themselves. How much of its cached memory they would have held, and where in it the older allocations would have
// lain, no recording tells, but it decides how later requests fit in.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/policies/torch_resume.h"
#include "analyzer/replay/replay.h"
#include "formats/torch/settings.h"

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
  Bytes least() const { return least_; }
  Bytes most() const { return most_; }

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

// What a history that began late can't tell about the state it began in, learned from where its replay goes wrong.

/// A free block that a request got, or that was released.
struct FreePlace {
  Address address;  // as recorded
  Bytes size;
  std::optional<std::size_t> made;  // the block of the initial state whose age it has (TorchInitialAges)
};

/// Where a replay first differs from the recording.
struct LateDifference {
  std::size_t row = 0, segment_event = 0;
  std::optional<FreePlace> recorded, replayed;  // what was taken or released there
  Bytes wanted;                                 // by a request, as rounded; 0: it is about a release
  std::vector<Address> released;                // as recorded, for the request of that row

  bool is_after(const LateDifference& other) const {
    return std::pair(row, segment_event) > std::pair(other.row, other.segment_event);
  }
};

/// The state that a replay begins with.
struct LateStart {
  InitialState state;
  TorchInitialAges ages;
  std::vector<std::pair<std::size_t, std::size_t>> older;  // learned: the first is older than the second

  /// The states that differ from this one in one respect, and that might explain the difference, likeliest first:
  ///  - of two free blocks of equal size, the one that served is older. Blocks count where the release numbers them,
  ///  else
  ///    segments and expandable segments;
  ///  - an older allocation holds more than was requested: what is too small to be split off goes with it, so that the
  ///    free block behind it, which the replay chose, begins later;
  ///  - memory released by garbage collection had been unused for longer than what was kept.
  std::vector<LateStart> explanations(const LateDifference& difference, const TorchSettings& settings) const;

  /// The second kind alone. Of a block that was made shorter for one request, an earlier one may ask for even less: it
  /// was the best for that one only since.
  std::optional<LateStart> shortened(const LateDifference& difference, const TorchSettings& settings) const;
};

/// Which of these it is, when none explains a difference.
std::string unknown_of(const LateDifference& difference, const TorchSettings& settings);

}  // namespace memreel
