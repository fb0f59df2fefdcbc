// Classifies every allocation of a trace.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/category/category.h"
#include "analyzer/category/layer_calls.h"
#include "analyzer/category/stack_meanings.h"
#include "formats/model/trace.h"

namespace memreel {

struct Categories {
  std::vector<Evidence> evidence;    // by AllocationId; category_of() gives the category
  std::vector<Phase> phase;          // by AllocationId: when it was made
  std::vector<StackMeaning> stacks;  // by StackId
  LayerCalls calls;

  Category category(AllocationId id) const { return category_of(evidence[index(id)]); }
};

/// Uses frames, phases, sizes and lifetimes; no names of programs. Unknown stays unknown. Linear in events and stacks.
/// docs/categories.md has the rules and what each rests on. `cancelled`: polled now and then; once it returns true,
/// classification stops and the result is useless.
Categories classify(const Trace& trace, const std::function<bool()>& cancelled = {});

}  // namespace memreel
