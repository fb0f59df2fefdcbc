// The most that a heap held during parts of a run: the phases of its steps, and the ranges that the program names.
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
  Bytes live;                // requested bytes, at their highest during any of it
  std::uint64_t events = 0;  // that had happened by then
};

struct PhasePeak {
  Phase phase = Phase::other;
  SpanPeak peak;
};

/// Ranges with one name inside ranges with one name: nodes of a tree.
struct RangePeak {
  std::string name;
  std::optional<std::size_t> parent;  // an earlier one
  std::uint32_t depth = 0;            // of ranges inside no other: 0
  std::uint64_t count = 0;            // how often it was entered
  SpanPeak peak;
  Bytes rise;  // the most that live bytes were above what they were when one of them began
};

/// Phases in which the heap allocates. `categories`: of the trace.
std::vector<PhasePeak> phase_peaks(const Trace& trace, const Categories& categories, HeapId heap);

/// Parents before their children, else as first entered; at most `most_ranges`, those entered later are left out.
/// Ranges nest by thread; one that never ends, ends with the trace. What other threads allocate meanwhile counts. Time:
/// events and the logarithm of them for each range.
std::vector<RangePeak> range_peaks(const Trace& trace, HeapId heap, std::size_t most_ranges = 4096);

}  // namespace memreel
