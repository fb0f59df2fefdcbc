// The PyTorch release whose rules are used to replay a history.
#pragma once

#include <map>
#include <span>
#include <string>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel {

struct TorchRules {
  TorchRelease release;
  bool told = false;  // stated by the history or the caller
  std::string text;   // "PyTorch 2.12, as stated by the snapshot"
};

/// "PyTorch 2.5 to 2.11": the releases with the same rules.
std::string torch_releases(TorchRelease release);

/// `settings`: of a PyTorch heap. `asked`: a release such as "2.12"; empty: the one stated by the history, else 2.11.
/// Errors: a release whose rules are unknown.
Result<TorchRules> torch_rules(const std::map<std::string, std::string>& settings, const std::string& asked);

/// The same for the first PyTorch heap among `heaps`; without text if there is none and no release was given.
Result<TorchRules> torch_rules(const Trace& trace, std::span<const Prepared> heaps, const std::string& asked);

/// Gives the rules to those policies that are PyTorch's, unless they name their own.
void set_torch_rules(std::span<PolicySpec> specs, const TorchRules& rules);

}  // namespace memreel
