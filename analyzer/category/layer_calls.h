// SPDX-License-Identifier: Apache-2.0
// Numbers the runs of a line in a model's forward(), for recordings that don't identify the called module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/category/frame_rules.h"
#include "analyzer/category/observations.h"
#include "formats/model/trace.h"

namespace memreel {

/// `x = block(x)` in a loop over twelve blocks gives the same stacks twelve times. Allocations of a forward pass below
/// such a line are numbered by the run of the line.
struct LayerCalls {
  static constexpr std::uint16_t none = 0xffff;
  static constexpr std::uint32_t most = 256;  // a line that runs more often in a pass is no loop over layers

  std::vector<StackId> line;  // by StackId: the outermost part of the stack that is such a line; none: no part is
  std::vector<std::uint16_t> number;  // by AllocationId: the run within its pass, from 0; none: unknown

  std::uint16_t of(std::uint32_t allocation) const { return allocation < number.size() ? number[allocation] : none; }
};

/// A line ran g times in a pass if each of the stacks below it (at least three) made a multiple of g allocations. What
/// holds in most passes counts; the other passes are not numbered. Empty if the recording knows modules. Time: linear
/// in allocations, and in the depth of stacks.
LayerCalls find_layer_calls(const Trace& trace, std::span<const StackMeaning> stacks, const Phases& phases);

}  // namespace memreel
