// SPDX-License-Identifier: Apache-2.0
// What a program keeps, and whether that is a leak.
//
// Judged per stack over rounds (rounds.h): a leak is memory allocated at a steady rate until the end and, unlike
// everything else from the same place, never freed. docs/leaks.md explains the rules, their reasons, and their limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/insight/leaks_judge.h"
#include "analyzer/insight/rounds.h"
#include "analyzer/insight/suppressions.h"
#include "formats/model/trace.h"

namespace memreel {

/// "leak", "suspected", "resident", "cache", "warm-up", "sawtooth", "unknown before attach", "unattributed".
std::string_view name_of(LeakVerdict verdict);

/// Whether the verdict means that something is wrong.
constexpr bool accuses(LeakVerdict verdict) {
  return verdict == LeakVerdict::leak || verdict == LeakVerdict::suspected;
}

inline constexpr std::uint32_t no_cause = 0xFFFF'FFFF;

/// Reported for a recording that leaves out allocations, or both kinds of frees.
inline constexpr std::string_view leaks_not_judged = "not judged: allocations or frees are not in the recording";

/// What one stack of one heap keeps until the end of the trace, under one verdict; of the accused, also what was freed
/// only as the program wound up (wind_up() in leaks_population.h).
struct LeakFinding {
  LeakVerdict verdict = LeakVerdict::resident;
  HeapId heap = HeapId::none;
  StackId stack = StackId::none;
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_bytes_per_step = 0;  // 0 unless accused
  Growth growth;
  std::optional<Swelling> swelling;        // set if accused of growing in place, not of growing in number
  std::uint32_t rounds = 0;                // of the heap
  std::uint32_t oldest = 0;                // rounds since the oldest of them was allocated
  std::optional<std::uint32_t> last_free;  // round of the last free from this stack
  bool freed_at_end = false;               // some of them were, as the program wound up
  std::string evidence;                    // one sentence
  std::uint32_t cause = no_cause;          // index into LeakReport::causes, if accused
  std::vector<AllocationId> allocations;
};

/// Stacks that keep memory in the same rounds keep it for the same reason, e.g. all of a graph.
struct LeakCause {
  /// The innermost function of user code that they share, if the largest of them goes through it; none if they share
  /// none.
  FrameId frame = FrameId::none;
  Bytes bytes;
  std::uint64_t count = 0;
  std::uint32_t stacks = 0;
  double growth_bytes_per_step = 0;
};

struct HeapRounds {
  HeapId heap = HeapId::none;
  Rounds rounds;                     // too few: its leaks are not judged
  std::optional<double> steps_left;  // until the accused have used up the free memory
};

/// What a suppression silenced.
struct SuppressedLeaks {
  Suppression suppression;
  std::uint64_t count = 0;  // number of allocations
  Bytes bytes;
};

struct LeakReport {
  bool unrecorded = false;            // leaks_not_judged, and all else is empty
  std::vector<HeapRounds> heaps;      // those with allocations
  std::vector<LeakFinding> findings;  // the accused first, by cause and then by bytes; then the others by bytes
  std::vector<LeakCause> causes;      // largest first
  std::vector<SuppressedLeaks> suppressed;
};

struct LeakOptions {
  Suppressions suppressions = Suppressions::built_in();
  std::optional<Bytes> capacity;  // of each device, for the time until memory runs out; default: as recorded
};

LeakReport find_leaks(const Trace& trace, const LeakOptions& options = {});

// Nothing leaks more than live memory grows by.

/// Which of the accused among `findings`, all of `heap`, only take the place of what was freed: of older memory of the
/// same size, as in a queue that is longer than the recording; or, if all accusations together exceed what live memory
/// grew by over the rounds, first the suspicions, then the rest.
std::vector<std::size_t> unfounded(const Trace& trace, HeapId heap, const Rounds& rounds,
                                   std::span<const LeakFinding> findings);

}  // namespace memreel
