// SPDX-License-Identifier: Apache-2.0
// What a trace says beside its heaps: the device's own memory figures, and the cost of the recording.
#pragma once

#include <span>

#include "viewer/model/document.h"

namespace memreel::viewer {

// The device's own memory figures (memory_info): the part that no heap of the trace accounts for, and free memory in
// pixel columns.

struct DeviceSample {
  std::uint32_t event = 0;
  Bytes used, free;
};

/// The heap whose samples describe the device of a heap: the device's driver, else the heap itself (a framework with a
/// limit reports what is left of it). Null if there are none.
const HeapSeries* sampled_series(const Document& document, HeapId heap);

/// The last sample of `series` among the first `events` events.
std::optional<DeviceSample> sample_before(const Document& document, const HeapSeries& series, std::uint32_t events);

/// Memory that the device reports as used but no heap on it holds, at the last sample among the first `events` events:
/// contexts, code, other processes. None without driver samples. Counted as by the leak verdict `unattributed`.
std::optional<Bytes> unattributed(const Document& document, HeapId heap, std::uint32_t events);

/// The capacity of a heap, as far as samples show it: the device's memory, or the limit set for a framework.
std::optional<Bytes> sampled_limit(const Document& document, HeapId heap);

/// Minimum and maximum of the free bytes sampled in a column of pixels.
struct FreeColumn {
  std::uint64_t least = 0, most = 0;
  bool known = false;  // false before the first sample
  friend bool operator==(const FreeColumn&, const FreeColumn&) = default;
};

/// One column between each two of `edges`, which are ascending. Visits every sample in between.
std::vector<FreeColumn> free_columns(const Document& document, const HeapSeries& series,
                                     std::span<const Nanoseconds> edges);
/// The same for `width` columns from `begin` to `end`.
std::vector<FreeColumn> free_columns(const Document& document, const HeapSeries& series, Nanoseconds begin,
                                     Nanoseconds end, std::uint32_t width);

/// The share of the trace's time that memreel's recorder took on all of the program's threads together: an estimate,
/// the number of events times the measured cost of one (docs/measurements.md). None for traces recorded by another
/// tool.
std::optional<double> recording_share(const Document& document);

}  // namespace memreel::viewer
