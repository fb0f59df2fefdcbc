// What each stack of a trace says, from the rules of its frames.
#pragma once

#include <vector>

#include "analyzer/category/frame_rules.h"
#include "formats/model/tables.h"

namespace memreel {

/// Of a stack's frames, the innermost that says something counts: an optimizer's closure that calls the model is in the
/// forward pass.
struct StackMeaning {
  Phase phase = Phase::other;
  Purpose purpose = Purpose::none;
  bool has_frames = false;
  bool has_python = false;
  bool in_module = false;      // inside a call of nn.Module
  bool by_engine = false;      // entered from native code: autograd's engine called Python, or "[backward of]" follows
  bool preexisting = false;    // made before the recording began
  bool enters_module = false;  // the frame that this calls is a module's own
  StackId layer = StackId::none;  // the innermost part of the stack whose frame is a call of a module
  StackId call = StackId::none;   // the innermost part whose frame says which module it calls
  std::uint32_t line = 0;         // of the frame that `purpose` is from
};

/// One for each StackId. Linear in the stacks: each adds its frame to what its caller means.
std::vector<StackMeaning> stack_meanings(const Tables& tables);

}  // namespace memreel
