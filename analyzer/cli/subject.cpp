#include "analyzer/cli/subject.h"

#include <algorithm>

#include "analyzer/policies/torch_settings.h"
#include "analyzer/replay/torch_history.h"

namespace memreel::cli {

std::vector<Prepared> program_heaps(const Trace& trace) {
  std::vector<Prepared> heaps = prepare(trace);
  const auto keep = [&](auto wanted) {
    if (std::ranges::any_of(heaps, wanted)) std::erase_if(heaps, [&](const Prepared& heap) { return !wanted(heap); });
  };
  keep([](const Prepared& heap) { return heap.level == Level::framework; });
  keep([&](const Prepared& heap) { return is_torch(trace, heap); });
  return heaps;
}

std::optional<PolicySpec> recorded_policy(const Trace& trace, const std::vector<Prepared>& heaps) {
  if (heaps.empty() || !is_torch(trace, heaps.front())) return std::nullopt;
  PolicySpec recorded = TorchSettings::recorded(heaps.front().settings).spec();
  const auto info = std::ranges::find(policies(), recorded.name, &PolicyInfo::name);
  std::erase_if(recorded.parameters, [&](const auto& parameter) {
    const auto usual = info->defaults.find(parameter.first);
    return usual != info->defaults.end() && usual->second == parameter.second;
  });
  return recorded;
}

}  // namespace memreel::cli
