// One stack out of the native frames of a thread and the Python frames that its interpreter was running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

struct PythonFrame {
  FrameKey key;
  /// It is the outermost frame of a call of the evaluator: native code called it. Since Python 3.11 a Python function
  /// that Python code calls runs in its caller's evaluator.
  bool is_entry = true;
};

/// Writes to `merged` the frames of both, innermost first, as many as fit, and returns how many. Each native frame in
/// one of the ranges of the evaluator's code (_PyEval_EvalFrameDefault: the function, and the cold part that a compiler
/// may have split off) gives place to the Python frames it ran, up to the next entry. Python frames that are left when
/// the native stack ends early follow at its end. Native frames in `plumbing`, the rest of the interpreter's own code,
/// are left out.
std::size_t merge(std::span<const FrameKey> native, std::span<const PythonFrame> python,
                  std::span<const AddressRange> evaluator, AddressRange plumbing, std::span<FrameKey> merged);

}  // namespace memreel::stacks
