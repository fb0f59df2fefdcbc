#include "analyzer/cli/allocation_names.h"

#include "analyzer/category/classify.h"
#include "analyzer/category/layers.h"

namespace memreel::cli {

AllocationNames allocation_names(const Trace& trace) {
  const Categories categories = classify(trace);
  AllocationNames names;
  for (std::uint32_t id = 0; id < categories.evidence.size(); ++id) {
    names.category.push_back(name_of(categories.category(AllocationId{id})));
    names.phase.push_back(name_of(categories.phase[id]));
  }
  for (std::uint32_t s = 0; s < trace.tables.stacks.size(); ++s)
    names.layers.push_back(layer_path(trace.tables, categories.stacks, StackId{s}));
  for (const std::uint32_t event : trace.allocation_events)
    names.layer.push_back(names.layers[index(trace.events.stack[event])]);
  return names;
}

}  // namespace memreel::cli
