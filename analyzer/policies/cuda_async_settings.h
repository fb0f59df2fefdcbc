// Settings of a stream-ordered pool, shared by the model and the real one.
#pragma once

#include <map>
#include <string>

#include "analyzer/engine/policy_spec.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct CudaAsyncSettings {
  static constexpr Bytes never{~std::uint64_t{0}};

  /// What the pool may keep when the host waits for the device: cudaMemPoolAttrReleaseThreshold.
  Bytes release_threshold;
  bool follow_events = true;          // cudaMemPoolReuseFollowEventDependencies
  bool opportunistic = true;          // cudaMemPoolReuseAllowOpportunistic
  bool internal_dependencies = true;  // cudaMemPoolReuseAllowInternalDependencies
};

/// Every parameter with its default, as listed by the policy's registry entry.
std::map<std::string, std::string> cuda_async_defaults();

/// `spec` has every parameter.
Result<CudaAsyncSettings> cuda_async_settings(const PolicySpec& spec);

}  // namespace memreel
