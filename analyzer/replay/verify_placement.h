// Verification of any placing policy against a history that records its pool's memory: pool.jsonl, or any other for
// which a policy is named. The simulated device grants the recorded addresses (driver_addresses.h).
#pragma once

#include <optional>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/replay/verify.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// The policy named by a heap's settings: it is their "kind", or the only one that shares the most parts with it, as
/// cupy.pool does with "cupy" and rmm.pool with "rmm.pool.max". Settings named like its parameters set them. A missing
/// initial size is that of the segment before the first request. None: they name no policy.
std::optional<PolicySpec> recorded_policy(const Trace& trace, const Prepared& heap);

/// The setting "limit" is the device's capacity. What `given` omits but the history shows is found by trying: the
/// maximum of RMM's pool, its bins, and the order in which it visits its streams if these are at most seven. Errors: as
/// bind_policy(); a policy that does not place.
Result<Verification> verify_placement(const Trace& trace, const Prepared& heap, const PolicySpec& given);

}  // namespace memreel
