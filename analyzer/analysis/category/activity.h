// SPDX-License-Identifier: Apache-2.0
// What the program was doing at each event, as stacks and marks show it. Categories, steps and pools rest on it.
#pragma once

#include <span>

#include "analyzer/analysis/category/frame_rules.h"
#include "formats/model/trace.h"

namespace memreel {

/// The passes of a trace. A pass is a run of events of one phase; events without information belong to the pass they
/// lie in.
struct Phases {
  std::vector<Phase> of_event;                  // from the event itself, or its position between others
  std::vector<Phase> of_pass{Phase::other};     // by pass number; [0]: before the first
  std::vector<std::uint32_t> begin_of_pass{0};  // by pass number: its first event

  bool has_backward = false;
  bool frees_have_stacks = false;  // otherwise a free shows only when it was, not who freed

  /// The number of the pass that `event` lies in.
  std::uint32_t pass_of(std::uint32_t event) const;
};

struct Activity {
  std::vector<const FrameRule*> rules;  // by FrameId: rules_of_frames()
  std::vector<StackMeaning> stacks;     // by StackId
  Phases phases;
};

/// Allocations and frees are classified by frames; by lacking frames where others have some (autograd's threads run no
/// Python); by the ranges that optimizers mark. What the main thread does outside modules between a forward and a
/// backward pass computes the loss: it is `forward`. Linear in events and stacks.
Activity find_activity(const Trace& trace);

}  // namespace memreel
