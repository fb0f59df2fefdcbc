// What a program keeps, and whether that is a leak.
//
// Judged per stack over intervals (intervals.h): a leak is what is born at a steady rate until the end and, unlike
// everything else from the same place, never freed. docs/leaks.md has the rules with their reasons, and what they
// can't know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/insight/intervals.h"
#include "analyzer/insight/leaks_judge.h"
#include "analyzer/insight/leaks_swelling.h"
#include "analyzer/insight/suppressions.h"
#include "formats/model/trace.h"

namespace memreel {

/// "leak", "suspected", "resident", "cache", "warm-up", "sawtooth", "unknown before attach", "unattributed".
std::string_view name_of(LeakVerdict verdict);

/// Whether the verdict says that something is wrong.
constexpr bool accuses(LeakVerdict verdict) {
  return verdict == LeakVerdict::leak || verdict == LeakVerdict::suspected;
}

inline constexpr std::uint32_t no_cause = 0xFFFF'FFFF;

/// What is said of the leaks of a recording that was told to leave out allocations, or frees of both kinds.
inline constexpr std::string_view leaks_not_judged = "not judged: allocations or frees are not in the recording";

/// What one stack of one heap keeps until the end of the trace, as far as one verdict goes.
struct LeakFinding {
  LeakVerdict verdict = LeakVerdict::resident;
  HeapId heap = HeapId::none;
  StackId stack = StackId::none;
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_bytes_per_interval = 0;  // of the accused; 0 for others
  Growth growth;
  std::optional<Swelling> swelling;        // when it is accused of growing in place, not of being many
  std::uint32_t intervals = 0;             // of the heap
  std::uint32_t oldest = 0;                // intervals since the first of them was made
  std::optional<std::uint32_t> last_free;  // interval in which something from this stack was freed last
  std::string evidence;                    // one sentence
  std::uint32_t cause = no_cause;          // row of LeakReport::causes, for the accused
  std::vector<AllocationId> allocations;
};

/// Stacks that keep something in the same intervals keep it for the same reason, e.g. all of a graph.
struct LeakCause {
  /// Innermost function of the user's own code that they share, where the largest of them goes through it; none when
  /// they share none.
  FrameId frame = FrameId::none;
  Bytes bytes;
  std::uint64_t count = 0;
  std::uint32_t stacks = 0;
  double growth_bytes_per_interval = 0;
};

struct HeapIntervals {
  HeapId heap = HeapId::none;
  Intervals intervals;
  std::optional<double> intervals_left;  // until the accused have used up what is free
};

/// What a suppression has silenced.
struct SuppressedLeaks {
  Suppression suppression;
  std::uint64_t count = 0;  // allocations
  Bytes bytes;
};

struct LeakReport {
  bool unrecorded = false;            // leaks_not_judged, and all else is empty
  std::vector<HeapIntervals> heaps;   // those with allocations
  std::vector<LeakFinding> findings;  // the accused first, by cause and then by bytes; then the others by bytes
  std::vector<LeakCause> causes;      // largest first
  std::vector<SuppressedLeaks> suppressed;
};

struct LeakOptions {
  Suppressions suppressions = Suppressions::built_in();
  std::optional<Bytes> capacity;  // of each device, for the time until memory runs out; else as recorded
};

LeakReport find_leaks(const Trace& trace, const LeakOptions& options = {});

}  // namespace memreel
