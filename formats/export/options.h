// What an export needs besides the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/model/units.h"

namespace memreel {

/// The purpose of each allocation, by AllocationId. Empty: unknown, and not written. Does not own the strings.
struct AllocationNotes {
  std::span<const std::string_view> category;  // "activation"
  std::span<const std::string_view> layer;     // the call that made the allocation
  std::span<const std::string_view> phase;     // "forward"
};

struct ExportOptions {
  /// Formats that show an instant show the state after this many events of the trace; by default, each heap when its
  /// live bytes first peaked.
  std::optional<std::uint64_t> events;

  /// By AllocationId: the bytes that each allocation takes in its segment, rounding included. Empty: unknown, and not
  /// written.
  std::span<const Bytes> block_sizes;

  AllocationNotes notes;
};

}  // namespace memreel
