// SPDX-License-Identifier: Apache-2.0
// What a frame of a stack says about the memory allocated below it, as a table of rules.
#pragma once

#include <cstddef>
#include <span>

#include "analyzer/analysis/category/category.h"
#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// The purpose for which a frame's code makes memory.
enum class Purpose : std::uint8_t {
  none,             // no information: the callers decide
  wrapper,          // passes a call on: a decorator, a hook
  compute,          // a module's call: the purpose of the module's callers says nothing about what it computes
  move_module,      // nn.Module._apply: parameters, then buffers
  weights,          // constructs modules or loads weights
  norm,             // constructs a batch norm: two parameters, then three buffers
  constructor,      // any constructor, perhaps of a module
  copy,             // copies a module
  optimizer,        // an optimizer's step
  closure,          // what an optimizer's step calls to compute the loss anew
  optimizer_state,  // state outside the optimizer: the gradient scaler
  zero_grad,
  gradient_buffer,
  data,        // moves batches
  scattered,   // splits a batch over devices, in a module's call
  kv_cache,    // a key-value cache
  collective,  // buckets, all-gather, reduce-scatter
  gathered,    // parameters gathered from shards, or copied to other devices for a call
  workspace,   // scratch of a library
  capture,     // begins or ends the capture of a CUDA graph
};

struct FrameRule {
  std::string_view
      file;  // "a/b.py": path suffix; "a/": contains this folder; leading '*': name contains this; empty: any
  std::string_view function;   // names separated by '|'; leading '*': contains this; empty: any
  Phase phase = Phase::other;  // `other`: the callers decide
  Purpose purpose = Purpose::none;
  std::string_view reason;
};

/// The first rule that matches the frame; null if none does.
const FrameRule* rule_of(const FrameText& frame);

/// The same for every frame of a trace, by FrameId. Frames of one function share the search.
std::vector<const FrameRule*> rules_of_frames(const Tables& tables);

/// How many frames there are up to the outermost one of nn.Module's machinery: only these can be calls of modules.
/// Innermost frame first.
std::size_t count_below_calls(std::span<const FrameText> frames);

/// Whether frames[i] is a call of a module that is not one of PyTorch's own: nn.Module's machinery calls it, directly
/// or through wrapper frames. Innermost frame first.
bool calls_own_module(std::span<const FrameText> frames, std::size_t i);

/// Whether a frame is in a Python file of PyTorch's.
bool is_of_torch(const FrameText& frame);

/// Whether a frame only passes a call on: a decorator, a hook, nn.Module's machinery, and all that reports hide.
bool passes_on(const FrameText& frame);

/// Whether Python code with this outermost frame was started by a program or a Python thread, rather than entered from
/// native code.
bool starts_python(const FrameText& outermost);

// The meaning of each stack of a trace, from the rules of its frames.

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

/// One per StackId. `rules`: rules_of_frames(tables). Linear in the stacks: each adds its frame to its caller's
/// meaning.
std::vector<StackMeaning> stack_meanings(const Tables& tables, std::span<const FrameRule* const> rules);

}  // namespace memreel
