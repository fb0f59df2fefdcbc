// The release of PyTorch whose rules a history is replayed by.
#pragma once

#include <map>
#include <span>
#include <string>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/policies/torch_settings.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

struct TorchRules {
  TorchRelease release;
  bool told = false;  // by the history, or by who asks
  std::string text;   // "PyTorch 2.12, as the snapshot tells"
};

/// "PyTorch 2.5 to 2.11": those with the same rules.
std::string torch_releases(TorchRelease release);

/// `settings`: of a heap of PyTorch. `asked`: a release such as "2.12"; empty: the one that the history tells, else
/// 2.11. Errors: a release that there are no rules of.
Result<TorchRules> torch_rules(const std::map<std::string, std::string>& settings, const std::string& asked);

/// The same of the first heap of PyTorch among `heaps`; without text when there is none and nothing was asked.
Result<TorchRules> torch_rules(const Trace& trace, std::span<const Prepared> heaps, const std::string& asked);

/// Gives those policies that are PyTorch's the rules, unless they name their own.
void set_torch_rules(std::span<PolicySpec> specs, const TorchRules& rules);

}  // namespace memreel
