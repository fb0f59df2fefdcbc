// The meaning of each stack of a trace, from the rules of its frames.
#pragma once

#include <vector>

#include "analyzer/category/frame_rules.h"
#include "formats/model/tables.h"

namespace memreel {

/// The innermost frame of a stack that matches a rule counts: an optimizer's closure that calls the model is in the
/// forward pass.
struct StackMeaning {
  Phase phase = Phase::other;
  Purpose purpose = Purpose::none;
  bool has_frames = false;
  bool has_python = false;
  bool has_operator = false;   // native frames were recorded by name: PyTorch's operators are among them
  bool in_module = false;      // inside an nn.Module call
  bool by_engine = false;      // entered from native code: autograd's engine called Python, or "[backward of]" follows
  bool preexisting = false;    // made before the recording began
  bool enters_module = false;  // the frame it calls is a module's own
  StackId layer = StackId::none;  // the innermost part of the stack whose frame is a module call
  StackId call = StackId::none;   // the innermost part whose frame identifies the called module
  std::uint32_t line = 0;         // of the frame that determines `purpose`
};

/// One per StackId. Linear in the stacks: each adds its frame to its caller's meaning.
std::vector<StackMeaning> stack_meanings(const Tables& tables);

}  // namespace memreel
