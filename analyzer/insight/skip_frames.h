// Frames that stand between an allocation and whoever asked for it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// Leaves these frames out of the stacks of a trace's events:
/// - memreel's own, by which an annotated program says what its pool does (memreel.h, `import memreel`), with what is
///   inside of them: ctypes, libffi;
/// - those whose function or file matches one of `patterns` (suppressions.h), wherever they are;
/// - in each heap but PyTorch's, a wrapper that all allocations go through: the innermost frames of the user's own
/// code, as long as
///   these are the same place for all of them, where several places call it.
/// Returns one sentence for each such wrapper. O(events + frames of all stacks).
std::vector<std::string> skip_frames(Trace& trace, std::span<const std::string> patterns);

}  // namespace memreel
