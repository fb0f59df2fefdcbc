// SPDX-License-Identifier: Apache-2.0
// A registry entry of a policy. The replay itself is compiled next to each policy (engine.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/parameters.h"
#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"
#include "formats/model/result.h"

namespace memreel {

struct PolicyInfo {
  std::string_view name;
  std::string_view description;  // one line
  std::vector<Parameter> parameters;
  bool needs_whole_trace = false;  // decides with knowledge of the whole trace: can't be streamed
  bool sub_allocates = true;       // meaningless on a driver-level heap of a program that already pools
  bool host_memory = false;        // for pinned host memory; all others are for device memory
};

/// A policy with resolved parameters.
struct BoundPolicy {
  PolicySpec spec;  // with every parameter
  Bytes unit;       // reserved bytes are multiples of this
  std::function<ReplayResult(const Prepared&, const RunOptions&)> run;
};

struct PolicyEntry {
  PolicyInfo info;
  /// `spec` has exactly the parameters that `info` lists, with values that their rows admit. Errors: values that do not
  /// go together.
  Result<BoundPolicy> (*bind)(const PolicySpec& spec);
  /// Converts user input into the parameters that `info` lists; null if no conversion is needed.
  Result<PolicySpec> (*normalize)(const PolicySpec& spec) = nullptr;
};

}  // namespace memreel
