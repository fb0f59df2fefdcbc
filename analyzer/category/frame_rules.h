// What a frame of a stack says about the memory that is made above it: one table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "analyzer/category/category.h"
#include "formats/model/stack_text.h"

namespace memreel {

/// What the code of a frame makes memory for.
enum class Purpose : std::uint8_t {
  none,             // the frame says nothing: what its callers say holds
  wrapper,          // passes a call on: a decorator, a hook
  compute,          // a module's call: what the callers of the module are for says nothing about what it computes
  move_module,      // nn.Module._apply: parameters, then buffers
  weights,          // constructs modules or loads weights
  norm,             // constructs a batch norm: two parameters, then three buffers
  constructor,      // a constructor of anybody's: perhaps of a module
  copy,             // copies a module
  optimizer,        // an optimizer's step
  optimizer_state,  // state beside the optimizer's own: the gradient scaler
  zero_grad,
  gradient_buffer,
  data,        // moves batches
  kv_cache,    // a key-value cache
  collective,  // buckets, all-gather, reduce-scatter
  gathered,    // parameters gathered from shards
  workspace,   // scratch of a library
  capture,     // begins or ends the capture of a CUDA graph
};

struct FrameRule {
  std::string_view
      file;  // "a/b.py": the path ends so; "a/": it has this folder; '*' in front: its name has this; empty: any
  std::string_view function;   // names separated by '|'; '*' in front: has this; empty: any
  Phase phase = Phase::other;  // `other`: what the callers say holds
  Purpose purpose = Purpose::none;
  std::string_view reason;
};

/// The first rule that the frame fits; null when none does.
const FrameRule* rule_of(const FrameText& frame);

/// Whether frames[i] is a call of a module that is not one of PyTorch's own: nn.Module's machinery calls it, directly
/// or through frames that only pass a call on. Innermost frame first.
bool calls_own_module(std::span<const FrameText> frames, std::size_t i);

/// Whether a source file is one of PyTorch's.
bool is_of_torch(std::string_view file);

/// Whether Python code that has this frame as its outermost was started by a program or by a thread of Python's, not
/// entered from native code.
bool starts_python(const FrameText& outermost);

}  // namespace memreel
