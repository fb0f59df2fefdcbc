// What an export needs to know beside the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/model/units.h"

namespace memreel {

/// What each allocation is for, by AllocationId. Empty: not known, and not written. The texts live elsewhere.
struct AllocationNotes {
  std::span<const std::string_view> category;  // "activation"
  std::span<const std::string_view> layer;     // the call that made it
  std::span<const std::string_view> phase;     // "forward"
};

struct ExportOptions {
  /// Formats of an instant show the state after so many events of the trace; without it, that of each heap when its
  /// live bytes first were at their most.
  std::optional<std::uint64_t> events;

  /// By AllocationId: what each allocation takes of its segment, with rounding. Empty: not known, and not written.
  std::span<const Bytes> block_sizes;

  AllocationNotes notes;
};

}  // namespace memreel
