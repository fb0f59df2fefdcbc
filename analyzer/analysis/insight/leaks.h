// SPDX-License-Identifier: Apache-2.0
// What a program keeps, and whether that is a leak.
//
// Judged per stack over rounds (rounds.h): a leak is memory allocated at a steady rate until the end and, unlike
// everything else from the same place, never freed. docs/leaks.md explains the rules, their reasons, and their limits.
#pragma once

#include <functional>
#include <limits>
#include <span>

#include "analyzer/analysis/insight/rounds.h"
#include "analyzer/analysis/insight/suppressions.h"
#include "formats/model/trace.h"

namespace memreel {

// What one call site kept beyond the end of a round, and for how long: the basis of every verdict.

/// An allocation that outlived the round it was made in. Rounds count from 0; what follows the last one is
/// count().
struct Held {
  static constexpr std::uint32_t alive = std::numeric_limits<std::uint32_t>::max();

  AllocationId id = AllocationId::none;
  std::uint32_t birth = 0;
  std::uint32_t death = alive;  // round in which the program freed it; alive: not before its wind_up()
  Bytes size;
  bool earlier = false;  // made before the events that a flight recorder keeps: no round tells when, and `birth` is 0

  bool survives() const { return death == alive; }
};

/// The end of a program, as one of its heaps sees it. What is freed then was held for as long as the program had a use
/// for it, and is judged as still held: an interpreter that ends frees every list; a function that returns, what it
/// kept for its loop.
struct WindUp {
  std::uint32_t last_round;  // event behind the end of the last round that is known to have ended
  std::uint32_t all;         // event behind the heap's last allocation
  std::uint32_t life;        // event that destroys the pool, if it is not used again; else the number of events

  /// Whether the free at event `at`, of what event `made` allocated, only winds up.
  bool frees(std::uint32_t at, std::uint32_t made) const {
    return at >= last_round && (made < last_round || at >= all);
  }
};

/// Rounds that are less than half of what the heap did don't tell when its program winds up, nor does a last one that
/// is still open.
WindUp wind_up(const Trace& trace, HeapId heap, const Rounds& rounds);

/// WindUp::life. What is freed from there on was not freed by the program.
std::uint32_t end_of_life(const Trace& trace, HeapId heap);

/// The allocations of one stack of one heap, or of several stacks judged as one.
struct Population {
  StackId stack = StackId::none;
  StringId note = StringId::none;         // without a stack: Origin::metadata of all of them
  std::uint64_t allocations = 0;          // all ever made there
  std::uint64_t frees = 0;                // none of those that only wind up
  std::uint32_t last_free = Held::alive;  // round of the last free; alive: nothing allocated there was ever freed
  std::vector<Held> held;                 // by id, and so by birth
  // Of what was freed before the events that a flight recorder keeps: how much, and the longest life in rounds, at
  // least.
  std::uint64_t earlier_frees = 0;
  std::uint32_t earlier_life = 0;

  bool has_survivors() const { return allocations != frees; }
};

/// A heap, and the rounds by which its allocations are judged.
struct HeapInRounds {
  HeapId heap = HeapId::none;
  Rounds rounds;
  WindUp end{};  // wind_up() of both
};

HeapInRounds in_rounds(const Trace& trace, HeapId heap, Rounds rounds);

/// For each of `heaps`, which differ, its populations with anything that outlived its round, by stack: one walk over
/// the events. Temporary memory: 4 bytes per allocation of the trace, and 32 per allocation that outlived its round.
///
/// Excludes what a heap gave to a pool inside it (segments of its child heaps), which is the pool's reserve.
std::vector<std::vector<Population>> populations(const Trace& trace, std::span<const HeapInRounds> heaps);

/// Merges them into one, under the stack of the first.
Population merged(std::vector<Population> parts);

// A flight recorder's events may cover the last minutes, and a leak days: its sums go further back.

/// The intervals of the sums, from the first to the end of the trace. None if there are no sums.
Rounds folded_rounds(const Trace& trace);

/// populations() over these intervals, including what was allocated and freed before the first kept event. Of that only
/// sums are known, so it is assumed to have been freed in the order of allocation. At most some dozens of the freed
/// allocations represent all those of an interval.
std::vector<Population> folded_populations(const Trace& trace, HeapId heap, const Rounds& intervals);

/// Sets what the populations of a flight recorder's events know of earlier ones. `sums`: folded_populations() of their
/// heap, of intervals of which `intervals_per_round` are as long as one of `rounds`.
void learn_earlier_lives(std::vector<Population>& found, const std::vector<Population>& sums,
                         double intervals_per_round, std::uint32_t rounds);

// Whether what a call site keeps is a leak. docs/leaks.md has the rules and their reasons.

enum class LeakVerdict : std::uint8_t {
  leak,       // kept in round after round until the end, and never freed
  suspected,  // the same with weaker evidence; or repeatedly replaced by larger ones (Swelling)
  resident,   // kept from the start, or one at a time: weights, optimizer state, buffers
  cache,      // kept for a while; its contents no longer grow
  warm_up,    // grew for a while and stopped
  sawtooth,   // freed in bursts, as by garbage collection
  unknown_before_attach,
  unattributed,
};

/// Measurements of the allocations under a verdict.
struct Growth {
  std::uint32_t rounds = 0;           // in which some were allocated that still live
  std::uint32_t first = 0, last = 0;  // the first and the last of those
  double slope = 0;                   // bytes per round: least-squares fit of the bytes kept by each of those rounds
  double r2 = 0;                      // of that fit; 0 if there is nothing to fit
  std::uint32_t longest_life = 0;     // in rounds, of any allocation from there that was freed before the end
};

/// The part of a population under one verdict. Accused parts come first, if any.
struct Judged {
  LeakVerdict verdict = LeakVerdict::resident;
  Growth growth;
  std::vector<Held> kept;     // what survives, by birth; either all is Held::earlier, or nothing
  std::vector<Held> earlier;  // if accused: what belongs to it and is Held::earlier
};

/// Of the bytes kept over the rounds in which some were allocated; `longest_life` is left at 0.
Growth growth_of(std::span<const Held> kept);

/// Every survivor of the population is in exactly one of the results.
std::vector<Judged> judge(const Population& population, const Rounds& rounds);

/// An object that is repeatedly replaced by a larger one: `history = torch.cat([history, x])`. No allocation is kept;
/// still, the bytes held by the site grow: what it holds at the end of its first round, and in the end.
struct Swelling {
  Growth growth;  // rounds: in which something larger was allocated; slope, r2: of the bytes held over the rounds
  Bytes at_first, at_last;
  std::size_t at_a_time = 1;  // objects
};

/// Whether a site frees what it allocates and still holds more from round to round, linearly, until the end: in
/// at least 16 rounds and over half of all, to twice what it held a quarter of the way, and never much less than
/// before.
std::optional<Swelling> swelling_of(const Population& population, const Rounds& rounds);

/// Whether another site also requests more and more, linearly: then the program's data grows (a curriculum, the keys of
/// a long request), and nothing is kept needlessly. One pass over the trace.
bool others_grow(const Trace& trace, HeapId heap, const Rounds& rounds, StackId site);

/// What the calls of the model after the last step keep, as those of an evaluation keep their outputs.
struct KeptByCalls {
  Population population;  // over all calls
  std::uint32_t calls = 0;
  Judged judged;              // rounds are these calls
  std::vector<Held> earlier;  // what earlier calls kept there
};

/// Of sites that kept something in at least four of them and never freed what was that old. `is_freed`: in the end,
/// too.
std::vector<KeptByCalls> kept_by_later_calls(const Trace& trace, HeapId heap, const Rounds& rounds,
                                             const std::function<bool(AllocationId)>& is_freed);

/// "leak", "suspected", "resident", "cache", "warm-up", "sawtooth", "unknown before attach", "unattributed".
std::string_view name_of(LeakVerdict verdict);

/// Whether the verdict means that something is wrong.
constexpr bool accuses(LeakVerdict verdict) {
  return verdict == LeakVerdict::leak || verdict == LeakVerdict::suspected;
}

/// What an accused place keeps more with.
enum class GrowsWith : std::uint8_t { steps, calls };

/// One of them: "step", "call".
constexpr std::string_view unit_of(GrowsWith unit) { return unit == GrowsWith::steps ? "step" : "call"; }

inline constexpr std::uint32_t no_cause = 0xFFFF'FFFF;

/// Reported for a recording that leaves out allocations, or both kinds of frees.
inline constexpr std::string_view leaks_not_judged = "not judged: the recording lacks allocations or frees";

/// What one stack of one heap keeps until the end of the trace, under one verdict; of the accused, also what was freed
/// only as the program wound up (wind_up()).
struct LeakFinding {
  LeakVerdict verdict = LeakVerdict::resident;
  HeapId heap = HeapId::none;
  StackId stack = StackId::none;
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_bytes_per_step = 0;   // 0 unless accused
  GrowsWith unit = GrowsWith::steps;  // calls where it is KeptByCalls
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
  bool several_lines = false;  // more than a tenth of the bytes is from other lines of that function
  Bytes bytes;
  std::uint64_t count = 0;
  std::uint32_t stacks = 0;
  double growth_bytes_per_step = 0;
  GrowsWith unit = GrowsWith::steps;  // as its findings
};

/// "step (train.py:41)", without the line if there are several; empty if it has no frame.
std::string place_of(const Tables& tables, const LeakCause& cause);

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

/// `rounds_of`: find_rounds() of a heap, asked for at most once for each.
LeakReport find_leaks(const Trace& trace, const LeakOptions& options, const std::function<Rounds(HeapId)>& rounds_of);

/// Groups the accused of `findings` whose allocations were made in the same rounds, sets their `cause`, and returns
/// the groups, largest first. Two patterns are the same if nine tenths of their rounds match.
///
/// `births`: for each finding, the rounds in which its allocations were made, ascending and distinct.
std::vector<LeakCause> group_by_cause(const Tables& tables, std::vector<LeakFinding>& findings,
                                      const std::vector<std::vector<std::uint32_t>>& births);

// Nothing leaks more than live memory grows by.

/// Which of the accused among `findings`, all of `heap`, only take the place of what was freed: of older memory of the
/// same size, as in a queue that is longer than the recording; or, if all accusations together exceed what live memory
/// grew by over the rounds, first the suspicions, then the rest.
std::vector<std::size_t> unfounded(const Trace& trace, HeapId heap, const Rounds& rounds,
                                   std::span<const LeakFinding> findings);

}  // namespace memreel
