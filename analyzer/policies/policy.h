// What a policy is to the replay.
#pragma once

#include <concepts>
#include <cstdint>

#include "analyzer/replay/replay.h"
#include "formats/model/units.h"

namespace memreel {

/// What becomes of the memory in a policy's hands. allocated + free <= reserved; the difference is pending: let go of
/// by the program, still in use by the device.
struct HeapUse {
  Bytes allocated;  // handed out, after rounding; falls when the program lets go
  Bytes reserved;   // held from the device
  Bytes free;       // could be handed out
};

/// An allocator's decision rules. It is told what the program does, one call per operation, and answers by what it
/// reserves. Allocations are known by their slots (Prepared::slot). Only slots that allocate() served are freed.
///
/// `size` is what was requested, in frees too.
template <class P>
concept Policy = requires(P& policy, const P& constant, std::uint32_t slot, Bytes size, std::uint32_t lane) {
  { policy.allocate(slot, size, lane) } -> std::same_as<bool>;  // false: it failed, and slot is not used
  policy.free(slot, size);
  policy.free_requested(slot, size);
  policy.free_completed(slot, size);
  policy.empty_cache();
  { constant.use() } -> std::same_as<const HeapUse&>;
  { constant.largest_free() } -> std::same_as<Bytes>;
  { constant.driver_calls() } -> std::same_as<const DriverCalls&>;
};

}  // namespace memreel
