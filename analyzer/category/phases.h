// In which part of a step each event of a trace lies.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/category/stack_meanings.h"
#include "formats/model/trace.h"

namespace memreel {

/// How a trace is cut into passes. A pass is a stretch of events of one phase; events that say nothing belong to the
/// pass they lie in.
struct Phases {
  std::vector<Phase> of_event;         // what the event itself, or its place between others, says
  std::vector<std::uint32_t> pass_of;  // number of the pass that each event lies in; 0 before the first
  std::vector<Phase> of_pass;          // by number of the pass; [0] is `other`

  bool has_backward = false;
  bool frees_have_stacks = false;  // else a free says only when it was, not who freed
};

/// Allocations and frees speak for themselves: by frames; by having none where others have some (autograd's threads run
/// no Python); by the ranges that optimizers mark. What the main thread does outside of modules between a forward and a
/// backward pass computes the loss: it is `forward`.
Phases find_phases(const Trace& trace, const std::vector<StackMeaning>& stacks);

}  // namespace memreel
