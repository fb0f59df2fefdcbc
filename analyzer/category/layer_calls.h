// Which time a line of a model's forward() ran, in recordings that don't say which module was called.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/category/phases.h"
#include "analyzer/category/stack_meanings.h"
#include "formats/model/trace.h"

namespace memreel {

/// `x = block(x)` in a loop over twelve blocks makes the same stacks twelve times. What a forward pass makes below such
/// a line is numbered by the time that the line ran.
struct LayerCalls {
  static constexpr std::uint16_t none = 0xffff;
  static constexpr std::uint32_t most = 256;  // a line that runs more often in a pass is no loop over layers

  std::vector<StackId> line;  // by StackId: the outermost part of the stack that is such a line; none: no part is
  std::vector<std::uint16_t> number;  // by AllocationId: which time of its pass it was, from 0; none: not known

  std::uint16_t of(std::uint32_t allocation) const { return allocation < number.size() ? number[allocation] : none; }
};

/// A line ran g times in a pass if each of the stacks below it (three at least) made a multiple of g allocations. What
/// holds in most passes counts, and of the others nothing is numbered. Empty where the recording knows modules. Time:
/// linear in allocations, and in the depth of stacks.
LayerCalls find_layer_calls(const Trace& trace, std::span<const StackMeaning> stacks, const Phases& phases);

}  // namespace memreel
