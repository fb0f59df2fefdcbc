// What the device itself said of its memory (memory_info): the part of it that no heap of the trace accounts for, and
// what was left, as wide as the screen.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

struct DeviceSample {
  std::uint32_t event = 0;
  Bytes used, free;
};

/// Whose samples speak of the device that a heap is on: those of the device's driver, else the heap's own (a framework
/// that was given a limit says what is left of it). Null when there are none.
const HeapSeries* sampled_series(const Document& document, HeapId heap);

/// The last sample of `series` among the first `events` events.
std::optional<DeviceSample> sample_before(const Document& document, const HeapSeries& series, std::uint32_t events);

/// What the device says is used and no heap on it holds, at the last sample among the first `events` events: contexts,
/// code, other processes. None without samples of the driver. As the leak verdict `unattributed` counts it.
std::optional<Bytes> unattributed(const Document& document, HeapId heap, std::uint32_t events);

/// The most that a heap can have, as far as samples say: what the device has, or the limit that a framework was given.
std::optional<Bytes> sampled_limit(const Document& document, HeapId heap);

/// The free bytes that the samples of `series` gave in a column of pixels: least and most.
struct FreeColumn {
  std::uint64_t least = 0, most = 0;
  bool known = false;  // false before the first sample
  friend bool operator==(const FreeColumn&, const FreeColumn&) = default;
};

/// A column between each two of `edges`, which ascend. Looks at every sample in between.
std::vector<FreeColumn> free_columns(const Document& document, const HeapSeries& series,
                                     std::span<const Nanoseconds> edges);
/// The same for `width` columns from `begin` to `end`.
std::vector<FreeColumn> free_columns(const Document& document, const HeapSeries& series, Nanoseconds begin,
                                     Nanoseconds end, std::uint32_t width);

}  // namespace memreel::viewer
