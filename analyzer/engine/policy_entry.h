// What a policy is to who looks it up by its name. The replay itself is compiled beside each policy (engine.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"
#include "analyzer/engine/run_options.h"
#include "formats/model/result.h"

namespace memreel {

struct PolicyInfo {
  std::string_view name;
  std::string_view description;  // one line
  std::map<std::string, std::string> defaults;
  bool needs_whole_trace = false;  // decides with all of it before its eyes: can't be streamed
  bool sub_allocates = true;       // meaningless on a driver-level heap of a program that pools by itself
  bool host_memory = false;        // of pinned host memory; the others are of a device's
};

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

}  // namespace memreel
