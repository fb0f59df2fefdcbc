// What the numbers of a trace can be. They are checked once: by importers where they read them, and for whoever
// computes with a trace where it is opened (value_check.h), so that all that comes after adds and subtracts without
// looking.
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/model/event.h"
#include "formats/model/units.h"

namespace memreel {

/// The largest allocation, the largest segment, and what a device can have: 32 TiB.
inline constexpr Bytes max_allocation{std::uint64_t{1} << 45U};
/// Nothing lies above it: the end of an allocation is always a number.
inline constexpr Address max_address{std::uint64_t{1} << 62U};
/// What a failed request may ask for, and a sample of the device say: PyTorch refuses more by itself.
inline constexpr Bytes max_request{std::uint64_t{1} << 60U};
/// All allocations and segments of a trace together: a billion of 4 GiB.
inline constexpr Bytes max_total{std::uint64_t{1} << 62U};
/// Before and after the epoch: until 2116. The time from one event to another is always a number.
inline constexpr Nanoseconds max_time{(std::int64_t{1} << 62U) - 1};

/// Frames of a stack. What lies further out is left out by the reader.
inline constexpr std::uint32_t max_stack_depth = 4096;
/// Heaps of a trace. Every analysis keeps something for each.
inline constexpr std::uint32_t max_heaps = 4096;

constexpr bool is_possible(Address address, Bytes size) { return address <= max_address && size <= max_allocation; }
constexpr bool is_possible(Nanoseconds time) { return time >= -max_time && time <= max_time; }

/// Whether an event of `kind` counts towards max_total.
constexpr bool counts_in_total(EventKind kind) { return has_address(kind) && !is_free(kind); }

/// A quantity that anybody may name, such as the size of a request that failed, cut to what it may be.
constexpr std::uint64_t as_request(std::uint64_t bytes) { return std::min(bytes, max_request.count); }

}  // namespace memreel
