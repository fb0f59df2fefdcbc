// SPDX-License-Identifier: Apache-2.0
// Classifies every allocation of a trace.
#pragma once

#include <functional>
#include <memory>

#include "analyzer/analysis/category/activity.h"
#include "analyzer/analysis/category/category.h"
#include "analyzer/analysis/category/observations.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel {

struct Categories {
  std::vector<Evidence> evidence;            // by AllocationId; category_of() gives the category
  std::vector<Phase> phase;                  // by AllocationId: when it was made
  std::shared_ptr<const Activity> activity;  // what they are derived from
  LayerCalls calls;

  /// By StackId; none before anything is classified.
  std::span<const StackMeaning> stacks() const {
    return activity ? std::span(activity->stacks) : std::span<const StackMeaning>();
  }
  Category category(AllocationId id) const { return category_of(evidence[index(id)]); }
};

/// Uses frames, phases, sizes and lifetimes; no names of programs. Unknown stays unknown. Linear in events and stacks.
/// docs/categories.md has the rules and what each rests on. `cancelled`: polled now and then; once it returns true,
/// classification stops and the result is useless.
Categories classify(const Trace& trace, const std::function<bool()>& cancelled = {});
/// The same where lifetimes(trace) and find_activity(trace) are known.
Categories classify(const Trace& trace, std::span<const Lifetime> lives, std::shared_ptr<const Activity> activity,
                    const std::function<bool()>& cancelled = {});

// The module calls that a stack lies in, without wrapper frames.

/// The innermost call of a module that is not one of PyTorch's own; of PyTorch's if there are no others. Without
/// function and file if the stack is in no module.
FrameText layer_frame(const Tables& tables, std::span<const StackMeaning> stacks, StackId stack);

/// The innermost module that the stack is a call of, if the recording knows modules: as the program named it,
/// "transformer.h.3.mlp", else by its class and number and those of its callers, "GPT2Model 0/GPT2Block 3/GPT2MLP 3".
/// Otherwise all module calls, outermost first: "x.py:682 #3/x.py:305/linear.py:134", where `call` is the run of the
/// line in Categories::calls, or LayerCalls::none.
std::string layer_path(const Tables& tables, const Categories& categories, StackId stack, std::uint16_t call);

// What a program held before its recording began.

/// Fills in the evidence of allocations that are older than the recording and that their frames don't explain: by the
/// sizes of what the recording's backward passes leave, which are those of the parameters; by who frees them; and
/// where a recording has no backward pass, by being held throughout.
///
/// Copies of equal size differ by their age only, which the addresses give roughly: CUDA hands out the address space
/// in one direction, and what lies in a segment that was made for a larger request came after that one.
void conclude_older(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence);

// What takes the place of parameters.

/// An optimizer that binds new memory to its parameters (`p.data = p.data - ...`) frees what a constructor made, in its
/// first step, and what it made itself in the next. So it does with its state, which was made after the parameters;
/// where these are updated in place, they are kept. Changes the evidence of what such an optimizer keeps.
void conclude_rebound(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence);

// Copies of weights in 16 bit.

/// Autocast casts a weight once and keeps the copy until it ends (cached_cast and clear_cache in PyTorch's
/// aten/src/ATen/autocast_mode.cpp); of other tensors, it makes a copy for each operator. Without native frames, only
/// Python's end of autocast shows. Changes the evidence of copies that no backward pass uses: they are no part of a
/// graph, no temporaries and no inputs.
void conclude_autocast(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence);

}  // namespace memreel
