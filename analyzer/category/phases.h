// Assigns each event of a trace to a part of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/category/stack_meanings.h"
#include "formats/model/trace.h"

namespace memreel {

/// The passes of a trace. A pass is a run of events of one phase; events without information belong to the pass they
/// lie in.
struct Phases {
  std::vector<Phase> of_event;         // from the event itself, or its position between others
  std::vector<std::uint32_t> pass_of;  // pass number of each event; 0 before the first
  std::vector<Phase> of_pass;          // by pass number; [0] is `other`

  bool has_backward = false;
  bool frees_have_stacks = false;  // otherwise a free shows only when it was, not who freed
};

/// Allocations and frees are classified by frames; by lacking frames where others have some (autograd's threads run no
/// Python); by the ranges that optimizers mark. What the main thread does outside modules between a forward and a
/// backward pass computes the loss: it is `forward`.
Phases find_phases(const Trace& trace, const std::vector<StackMeaning>& stacks);

}  // namespace memreel
