// Policies by name.
#pragma once

#include <functional>
#include <span>

#include "analyzer/replay/engine.h"
#include "analyzer/replay/replay.h"

namespace memreel {

/// A policy whose parameters are settled.
struct BoundPolicy {
  PolicySpec spec;  // with every parameter
  Bytes unit;       // what it reserves is a multiple of this
  std::function<ReplayResult(const Prepared&, const RunOptions&)> run;
};

struct PolicyEntry {
  PolicyInfo info;
  /// `spec` has every parameter that `info` lists and no other. Errors: a value that makes no sense.
  Result<BoundPolicy> (*bind)(const PolicySpec& spec);
  /// Turns what users may write into the parameters that `info` lists; null when there is nothing to turn.
  Result<PolicySpec> (*normalize)(const PolicySpec& spec) = nullptr;
};

/// Errors: no policy has the spec's name, or the policy does not take its parameters.
Result<BoundPolicy> bind_policy(const PolicySpec& spec);

/// The entry of a name, or null.
const PolicyEntry* find_policy(std::string_view name);

}  // namespace memreel
