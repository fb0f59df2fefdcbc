// What every call site holds at an instant, and what it had allocated by then.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Requested bytes of the allocations with one stack, origin and purpose.
struct StackWeight {
  StackId stack = StackId::none;
  OriginId origin = OriginId::none;
  std::string_view category, layer, phase;  // from AllocationNotes; empty if there are none
  std::uint64_t made = 0;                   // up to the instant
  Bytes made_bytes;
  std::uint64_t live = 0;  // at the instant: allocated and not freed
  Bytes live_bytes;
};

/// In order of stack, origin, category and phase. The instant is after the first `events` events; by default it is, for
/// each heap, when its live bytes first peaked. Two passes over the trace; memory: the result.
std::vector<StackWeight> stack_weights(const Trace& trace, std::optional<std::uint64_t> events,
                                       const AllocationNotes& notes = {});

}  // namespace memreel
