// Memory allocated before a recording began.
#pragma once

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {

/// Whether `stack` belongs to something allocated before the recording began: its outermost frame says so.
inline bool is_preexisting(const Tables& tables, StackId stack) {
  if (stack == StackId::none) return false;
  while (tables[stack].caller != StackId::none) stack = tables[stack].caller;
  return tables[tables[tables[stack].frame].function] == preexisting_frame;
}

}  // namespace memreel
