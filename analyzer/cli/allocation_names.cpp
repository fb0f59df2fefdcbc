// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/allocation_names.h"

#include <map>

#include "analyzer/analysis/category/classify.h"

namespace memreel::cli {

AllocationNames allocation_names(const Trace& trace) {
  const Categories categories = classify(trace);
  AllocationNames names;
  for (std::uint32_t id = 0; id < categories.evidence.size(); ++id) {
    names.category.push_back(name_of(categories.category(AllocationId{id})));
    names.phase.push_back(name_of(categories.phase[id]));
  }
  std::map<std::pair<StackId, std::uint16_t>, std::string_view> known;
  for (std::uint32_t id = 0; id < trace.events.allocation_count(); ++id) {
    const StackId stack = trace.events.stack(trace.events.begin_of(AllocationId(id)));
    const std::uint16_t call = categories.calls.of(id);
    const auto [layer, is_new] = known.try_emplace({stack, call});
    if (is_new) layer->second = names.layers.emplace_back(layer_path(trace.tables, categories, stack, call));
    names.layer.push_back(layer->second);
  }
  return names;
}

}  // namespace memreel::cli
