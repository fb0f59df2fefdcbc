// SPDX-License-Identifier: Apache-2.0
// Peaks of a heap during parts of a run: the phases of its steps, and the ranges named by the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/category/classify.h"
#include "formats/model/trace.h"

namespace memreel {

struct SpanPeak {
  Bytes live;                // requested bytes, their highest during any occurrence
  std::uint64_t events = 0;  // number of events by then
};

struct PhasePeak {
  Phase phase = Phase::other;
  SpanPeak peak;
};

/// Ranges with one name inside ranges with one name: nodes of a tree.
struct RangePeak {
  std::string name;
  std::optional<std::size_t> parent;  // an earlier element
  std::uint32_t depth = 0;            // 0 for outermost ranges
  std::uint64_t count = 0;            // number of times it was entered
  SpanPeak peak;
  Bytes rise;  // the largest rise of live bytes above their value when a range began, without what threads with ranges
               // of their own made meanwhile
};

/// The phases in which the heap allocates. `categories`: of the trace.
std::vector<PhasePeak> phase_peaks(const Trace& trace, const Categories& categories, HeapId heap);

/// Parents before their children, otherwise in order of first entry; at most `most_ranges`, dropping later ones. Ranges
/// nest by thread; one that never ends, ends with the trace. Peaks are the heap's, whichever thread allocates. Time:
/// events, plus their logarithm per range.
std::vector<RangePeak> range_peaks(const Trace& trace, HeapId heap, std::size_t most_ranges = 4096);

}  // namespace memreel
