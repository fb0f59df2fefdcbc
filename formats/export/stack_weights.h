// What every call site holds at an instant, and what it had asked for until then.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// Requested bytes of the allocations that came from one stack and one origin, and are for the same.
struct StackWeight {
  StackId stack = StackId::none;
  OriginId origin = OriginId::none;
  std::string_view category, layer, phase;  // of AllocationNotes; empty where there are none
  std::uint64_t made = 0;                   // until the instant
  Bytes made_bytes;
  std::uint64_t live = 0;  // at the instant: made and not freed
  Bytes live_bytes;
};

/// In order of stack, origin, category and phase. The instant is after the first `events` events; without it, each
/// heap's is when its live bytes first were at their most. Two passes over the trace; memory: what is returned.
std::vector<StackWeight> stack_weights(const Trace& trace, std::optional<std::uint64_t> events,
                                       const AllocationNotes& notes = {});

}  // namespace memreel
