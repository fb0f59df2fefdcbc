// What an export needs to know beside the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "formats/model/units.h"

namespace memreel {

struct ExportOptions {
  /// Formats of an instant show the state after so many events of the trace; without it, that of each heap when its
  /// live bytes first were at their most.
  std::optional<std::uint64_t> events;

  /// By AllocationId: what each allocation takes of its segment, with rounding. Empty: not known, and not written.
  std::span<const Bytes> block_sizes;
};

}  // namespace memreel
