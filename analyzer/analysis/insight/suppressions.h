// SPDX-License-Identifier: Apache-2.0
// What a user wants left out: call sites that are judged already, and frames between an allocation and the code that
// requested it.
#pragma once

#include <span>

#include "formats/model/result.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel {

struct Suppression {
  std::string pattern;
  bool built_in = false;
};

/// A list of `leak:PATTERN`. A pattern is searched in the function, file and module of every frame; `*` matches
/// anything, `^` and `$` the beginning and end of the name.
class Suppressions {
 public:
  /// Suppressions for known frameworks: memory that a library takes once per handle, stream or shape and keeps by
  /// design.
  static Suppressions built_in();

  /// One per line; blank lines and lines that begin with `#` are ignored. `where`: the name used in errors.
  Result<void> add_lines(std::string_view text, const std::string& where);

  const std::vector<Suppression>& all() const { return all_; }

  /// The first that matches a frame of `stack`; null if none does.
  const Suppression* match(const Tables& tables, StackId stack) const;

 private:
  std::vector<Suppression> all_;
};

/// Whether a name matches a pattern as described above.
bool matches(std::string_view pattern, std::string_view name);

/// Removes these frames from the stacks of a trace's events:
/// - memreel's own, through which an annotated program describes its pool (memreel.h, `import memreel`), and those
///   below: ctypes, libffi;
/// - those whose function or file matches one of `patterns` (suppressions.h), anywhere in the stack;
/// - in each heap except PyTorch's, a wrapper that all allocations go through: the innermost user frames, as long as
///   they are the same place for all allocations, if several places call the wrapper.
/// Returns one sentence per wrapper. O(events + frames of all stacks).
std::vector<std::string> skip_frames(Trace& trace, std::span<const std::string> patterns);

}  // namespace memreel
