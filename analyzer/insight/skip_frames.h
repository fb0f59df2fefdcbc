// Removes frames between an allocation and the code that requested it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// Removes these frames from the stacks of a trace's events:
/// - memreel's own, through which an annotated program describes its pool (memreel.h, `import memreel`), and those
///   below: ctypes, libffi;
/// - those whose function or file matches one of `patterns` (suppressions.h), anywhere in the stack;
/// - in each heap except PyTorch's, a wrapper that all allocations go through: the innermost user frames, as long as
///   they are the same place for all allocations, if several places call the wrapper.
/// Returns one sentence per wrapper. O(events + frames of all stacks).
std::vector<std::string> skip_frames(Trace& trace, std::span<const std::string> patterns);

}  // namespace memreel
