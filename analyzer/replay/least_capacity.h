// SPDX-License-Identifier: Apache-2.0
// How small a device may be before a replay on it fails.
#pragma once

#include <functional>
#include <optional>

#include "formats/model/units.h"

namespace memreel {

/// How a replay on a device of some capacity ended.
enum class Attempt : std::uint8_t { served, failed, unfinished };

/// Of a result of either kind: ReplayResult, SharedReplay.
Attempt attempt_of(const auto& result) {
  if (result.failed_allocations > 0) return Attempt::failed;
  return result.unfinished ? Attempt::unfinished : Attempt::served;
}

struct CapacitySearch {
  Bytes unit;           // capacities differ by multiples of it from peak_reserved
  Bytes peak_live;      // the program's own need: less must fail
  Bytes peak_reserved;  // taken where there was no limit: most likely enough
};

/// Bisects between the program's own need and what was taken without a limit. Failure is not quite monotone in the
/// capacity, since releasing at other moments changes placement: the result is a capacity whose replay did not fail,
/// while the one a unit below is known to fail.
///
/// None if no capacity is enough, as a policy may have its own limit, or if there is no time left to find it.
std::optional<Bytes> least_capacity(const CapacitySearch& search, const std::function<Attempt(Bytes capacity)>& replay);

}  // namespace memreel
