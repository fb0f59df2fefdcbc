#include "analyzer/replay/torch_rules.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/replay/torch_history.h"

namespace memreel {

std::string torch_releases(TorchRelease release) { return "PyTorch " + release.rules(); }

Result<TorchRules> torch_rules(const std::map<std::string, std::string>& settings, const std::string& asked) {
  TorchRules rules{.release = TorchSettings::recorded(settings).release};
  if (!asked.empty()) {
    const auto release = TorchRelease::parse(asked);
    if (!release)
      return Error{.what = "not a PyTorch release whose rules memreel knows: '" + asked + "'",
                   .where = "--torch-version",
                   .remedy = "name one from 2.1 on, e.g. 2.12"};
    rules = {.release = *release, .told = true, .text = torch_releases(*release) + ", as requested"};
    return rules;
  }
  rules.told = settings.contains(std::string(TorchRelease::recorded_key));
  rules.text = torch_releases(rules.release) + (rules.told ? ", as stated by the snapshot" : "");
  return rules;
}

Result<TorchRules> torch_rules(const Trace& trace, std::span<const Prepared> heaps, const std::string& asked) {
  const auto heap = std::ranges::find_if(heaps, [&](const Prepared& each) { return is_torch(trace, each); });
  if (heap != heaps.end()) return torch_rules(heap->settings, asked);
  if (asked.empty()) return TorchRules{};
  return torch_rules({}, asked);
}

void set_torch_rules(std::span<PolicySpec> specs, const TorchRules& rules) {
  constexpr std::array<std::string_view, 3> policies{"torch", "torch.native", "torch.expandable"};
  if (rules.release == TorchRelease{}) return;
  const std::string key(TorchSettings::release_key);
  for (PolicySpec& spec : specs)
    if (std::ranges::find(policies, spec.name) != policies.end())
      spec.parameters.try_emplace(key, rules.release.text());
}

}  // namespace memreel
