// Verification of any policy that places, on a history that says what its pool was given: pool.jsonl, or any other that
// a policy is named for. The simulated device gives the recorded addresses (driver_addresses.h).
#pragma once

#include <optional>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/replay/verify.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// The policy that a heap's settings name: it is their "kind", or the only one that shares the most of its parts with
/// it, as cupy.pool does with "cupy" and rmm.pool with "rmm.pool.max". Settings that are called as its parameters are
/// those. An initial size that they do not say is that of the segment before the first
/// request. None: they name no policy.
std::optional<PolicySpec> recorded_policy(const Trace& trace, const Prepared& heap);

/// The setting "limit" is the device's capacity. What `given` leaves out and the history shows is found by trying:
/// the maximum of RMM's pool, its bins, and the order in which it visits its streams as long as these are at most
/// seven. Errors: as bind_policy(); a policy that does not place.
Result<Verification> verify_placement(const Trace& trace, const Prepared& heap, const PolicySpec& given);

}  // namespace memreel
