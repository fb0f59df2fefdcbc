// Merges a thread's native frames with the Python frames that its interpreter was running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

struct PythonFrame {
  FrameKey key;
  /// The outermost frame of an evaluator call: native code called it. Since Python 3.11 a Python function called from
  /// Python code runs in its caller's evaluator.
  bool is_entry = true;
};

/// Writes the frames of both to `merged`, innermost first, as many as fit, and returns how many. Each native frame in
/// one of the evaluator's code ranges (_PyEval_EvalFrameDefault: the function, and the cold part that a compiler may
/// have split off) is replaced by the Python frames it ran, up to the next entry. If the native stack ends early, the
/// remaining Python frames follow at its end. Native frames in `plumbing`, the rest of the interpreter's own code, are
/// left out.
std::size_t merge(std::span<const FrameKey> native, std::span<const PythonFrame> python,
                  std::span<const AddressRange> evaluator, AddressRange plumbing, std::span<FrameKey> merged);

}  // namespace memreel::stacks
