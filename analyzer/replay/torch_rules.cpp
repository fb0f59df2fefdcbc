#include "analyzer/replay/torch_rules.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/replay/torch_history.h"

namespace memreel {

std::string torch_releases(TorchSettings::TieBreak tie_break) {
  return "PyTorch " + std::string(TorchSettings::releases_of(tie_break));
}

Result<TorchRules> torch_rules(const std::map<std::string, std::string>& settings, const std::string& asked) {
  TorchRules rules{.tie_break = TorchSettings::recorded(settings).tie_break};
  if (!asked.empty()) {
    const auto tie_break = TorchSettings::tie_break_of(asked);
    if (!tie_break)
      return Error{.what = "no release of PyTorch whose rules memreel knows: '" + asked + "'",
                   .where = "--torch-version",
                   .remedy = "name one from 2.1 on, e.g. 2.12"};
    rules = {.tie_break = *tie_break, .told = true, .text = torch_releases(*tie_break) + ", as asked for"};
    return rules;
  }
  rules.told = settings.contains(std::string(TorchSettings::release_key));
  rules.text = torch_releases(rules.tie_break) + (rules.told ? ", as the snapshot tells" : "");
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
  if (rules.tie_break == TorchSettings::TieBreak::address) return;
  const std::string value =
      TorchSettings{.tie_break = rules.tie_break}.spec().parameters.at(std::string(TorchSettings::tie_break_key));
  for (PolicySpec& spec : specs)
    if (std::ranges::find(policies, spec.name) != policies.end())
      spec.parameters.try_emplace(std::string(TorchSettings::tie_break_key), value);
}

}  // namespace memreel
