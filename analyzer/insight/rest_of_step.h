// SPDX-License-Identifier: Apache-2.0
// How a program goes on after a request that failed, as far as earlier steps show it.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// What an earlier step requested and freed from the point on where a later one failed, up to the next step.
///
/// The point is found by the stacks of the requests, without marks: the failed request continues the longest run of
/// requests that was made before, from the same places in the same order. A loop inside a step has this property too,
/// so between the two points live memory must have risen and fallen (layers of a forward pass only add to it), and it
/// must not have grown from each step to the next (a cache of keys and values, token by token). Of several earlier
/// steps, the one that asked most nearly as much counts. Its sizes become this step's: a size that this step changed
/// changes likewise, one that also existed before the step (of a parameter, for a gradient) stays, and others change as
/// the sum.
struct RestOfStep {
  Prepared rows;             // the failed request as if served, and the rest; slots go on from the history's
  Bytes more;                // how far live memory rises in the rest
  std::uint64_t rounds = 0;  // earlier steps that reached this point
  /// Those of them that began after the program had first used its newest pool or stream: one that captures a graph in
  /// each step, or makes a stream, needs more in each.
  std::uint64_t settled_rounds = 0;
  double growth = 1;  // bytes requested in this step so far, relative to the most of any earlier one
  /// What must stay free beyond that for later steps to be called served, as they differ from this one: 3 % of what the
  /// step holds if all asked alike; otherwise as much of it as steps have differed by, at least 7 % of it, and 5 % of
  /// all live memory. Measured with tests/lab/advice.
  Bytes margin;

  /// Whether there were enough earlier steps to say what later ones ask; a leak needs as many to be judged.
  bool shows_later_steps() const { return settled_rounds >= 4; }
};

/// The history of `heap` up to the request that failed at `event`, with that request served and kept.
Prepared with_request_served(const Prepared& heap, std::uint32_t event);

/// The history of `heap` up to the request that failed at `event`, and how its step would have gone on.
Prepared with_rest(const Prepared& heap, std::uint32_t event, const RestOfStep& rest);

/// None if no earlier step shows it: the failure is in the first one, what repeats is not a whole step, or gradients
/// are still accumulated for the first pass of an optimizer, which will make its state. Time: linear.
std::optional<RestOfStep> rest_of_step(const Trace& trace, const Prepared& heap, std::uint32_t event);

}  // namespace memreel
