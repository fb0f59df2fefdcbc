// SPDX-License-Identifier: Apache-2.0
// The unit of growth: rounds of the program's outermost loop, which its users call steps.
#pragma once

#include <functional>
#include <map>
#include <span>

#include "analyzer/analysis/insight/private_pools.h"
#include "analyzer/replay/steps.h"
#include "formats/model/trace.h"

namespace memreel {

enum class RoundSource : std::uint8_t {
  none,        // no loop is seen
  marks,       // the program's own marks (analyzer/replay/steps.h)
  optimizer,   // passes of the optimizer
  backward,    // backward passes, where no optimizer is seen, e.g. a fused one, which allocates nothing
  modules,     // calls of the outermost module
  repetition,  // neither, as in native programs: call sites (without stacks: sizes) that recur
  time,        // for a flight recorder: the intervals of its sums (leaks.h)
  several,     // nothing is known: the file holds several recordings, each with a loop of its own
};

/// The least number of rounds in which growth means anything.
inline constexpr std::uint32_t fewest_rounds = 4;

/// Calls of the model where some follow the last step, as those of an evaluation or of a step that was cut off.
struct ModelCalls {
  std::vector<std::uint32_t> ends;  // of all calls, as of rounds; one ends where the last step does, or soon after
  std::string line;                 // that makes those after the last step
  bool last_is_open = true;         // false: it failed
};

/// A trace cut into rounds. Round i lies between ends[i - 1] and ends[i], the first from the beginning.
struct Rounds {
  RoundSource source = RoundSource::none;
  std::string name;  // marks: the mark; modules, repetition: the line of the loop; time: the length of one; else empty
  std::vector<std::uint32_t> ends;  // indices of events, ascending
  bool last_is_open = false;        // what follows the last end is also a round, not the program's later work
  bool unfinished = false;          // what follows the last end is part of a round that was cut off
  ModelCalls calls{};               // set where rounds are passes, and calls follow the last

  std::uint32_t count() const { return static_cast<std::uint32_t>(ends.size()) + (last_is_open ? 1 : 0); }
  /// Whether there are enough to judge growth.
  bool suffice() const { return count() >= fewest_rounds; }
  /// "step", or "interval" if it is only a length of time.
  const char* unit() const { return source == RoundSource::time ? "interval" : "step"; }
};

/// By the number of the device: one entry for each that has a heap.
using RoundsOfDevices = std::map<std::int32_t, Rounds>;

/// The rounds that the program marked for `heap`, if it marked any, however few; else those of unmarked_rounds(), and
/// so if passes of the optimizer or backward passes go on after the last mark.
///
/// Memory that is older than the recording tells nothing about rounds. Where the recording ends with a failed request,
/// the round in which it failed is unfinished. `unmarked`: returns unmarked_rounds(), if they are needed.
Rounds find_rounds(const Trace& trace, HeapId heap, const std::function<const RoundsOfDevices&()>& unmarked);

/// From what the program does, for all of its heaps. Of these the first that is seen until the end:
///
/// - Passes of the optimizer; several backward passes before each accumulate gradients. Optimizers that take turns make
///   one step together.
/// - Backward passes, which also PyTorch's memory timelines show, by their categories.
/// - Calls of the outermost module. A loop inside one such call goes over layers. A call ends where the program
///   allocates or frees outside any module, and a round where a call site is reached again.
/// - Repetition, only where there is nothing of the above. Stacks: the outermost function whose lines recur, in rounds
///   that free some of what they allocate (before a failure: half); a loop that keeps it builds something, e.g. loads
///   weights. No stacks at all: sizes that recur evenly, eight times or more.
///
/// What is requested in pools of CUDA graphs is neither a call nor repetition: captures build graphs, which keep it.
/// Passes count by device, since each may train a model of its own; a device without any takes part in the loop of
/// another, as replicas do, and so do all in what is counted otherwise.
///
/// `pools`: private_pools(trace, activity).
RoundsOfDevices unmarked_rounds(const Trace& trace, const Activity& activity, std::span<const HeapPools> pools);

/// Where rounds end, as of steps that are marked. Passes and calls are steps however few; what only recurs, or lasts as
/// long, is so from `fewest_rounds` on. `events`: of the trace, where a last round that is open ends.
Steps steps_of(const Rounds& rounds, std::uint64_t events);

/// A phrase that says which were used, e.g. "60 steps, from the marks \"step\""; "not judged: the recording holds 1
/// step" if they do not suffice.
std::string text_of(const Rounds& rounds);
/// Only how: "each a pass of the optimizer".
std::string how_found(const Rounds& rounds);

}  // namespace memreel
