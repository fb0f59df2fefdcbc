// SPDX-License-Identifier: Apache-2.0
// The memory of a heap over time in the columns of a chart, with exact minima and maxima.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/insight/heap_map.h"
#include "formats/model/trace.h"

namespace memreel {

// The columns of a chart of a trace: equal stretches of its time.

/// For a trace without times, stretches of equally many events.
class TimeColumns {
 public:
  /// `events` must not be empty. `columns`: at least 1.
  TimeColumns(const Events& events, std::size_t columns)
      : columns_(columns),
        begin_(events.time(0)),
        end_(events.latest()),
        timed_(end_ > begin_),
        span_(timed_ ? static_cast<double>((end_ - begin_).count()) : static_cast<double>(events.count())) {}

  bool timed() const { return timed_; }
  Nanoseconds begin() const { return begin_; }
  Nanoseconds end() const { return end_; }

  /// The column of event `i`, which has this time. Call in event order: times can go back a little where threads meet;
  /// columns don't.
  std::size_t column(std::size_t i, Nanoseconds time) {
    const std::int64_t at = timed_ ? (time - begin_).count() : static_cast<std::int64_t>(i);
    if (at < next_) return last_;
    last_ = std::max(last_, column_at(at));
    // Where the next one begins, so that most events take no division.
    std::int64_t least = std::max<std::int64_t>(at, 0);
    next_ = std::numeric_limits<std::int64_t>::max();
    while (last_ + 1 < columns_ && least < next_) {
      const std::int64_t middle = least + (next_ - least) / 2;
      if (column_at(middle) > last_)
        next_ = middle;
      else
        least = middle + 1;
    }
    return last_;
  }

 private:
  std::size_t column_at(std::int64_t at) const {
    const double share = std::max(0.0, static_cast<double>(at)) / span_;
    return std::min(columns_ - 1, static_cast<std::size_t>(share * static_cast<double>(columns_)));
  }

  std::size_t columns_;
  Nanoseconds begin_, end_;
  bool timed_;
  double span_;
  std::size_t last_ = 0;
  std::int64_t next_ = std::numeric_limits<std::int64_t>::min();  // time or event at which the next column begins
};

struct MemoryRange {
  Bytes least, most;

  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

/// The range of a heap's memory during one stretch of time: the value at its beginning and all later ones in it.
struct MemoryColumn {
  MemoryRange live;       // requested and not freed
  MemoryRange allocated;  // the same, in block sizes
  MemoryRange reserved;
};

struct MemoryTimeline {
  HeapId heap = HeapId::none;
  Nanoseconds begin{}, end{};  // of the trace; both 0 if it has no times: columns then have equally many events
  std::vector<MemoryColumn> columns;
  std::vector<std::size_t> failures;  // columns with a failed request, ascending and distinct
};

/// One timeline per heap with allocations, in order of heap ids.
std::vector<MemoryTimeline> memory_timelines(const Trace& trace, const RecordedBlocks& blocks, std::size_t columns);

// The live memory of a heap over time, by category.

using BytesByCategory = std::array<Bytes, category_count>;  // requested bytes, by Category

struct CategoryTimeline {
  HeapId heap = HeapId::none;
  std::vector<BytesByCategory> columns;  // at the moment of most live bytes in that stretch of time
};

/// One timeline per heap with allocations, in order of heap ids. Columns match those of memory_timelines(), so the
/// categories of each column add up to its highest live bytes. `categories`: of the trace.
std::vector<CategoryTimeline> category_timelines(const Trace& trace, const Categories& categories, std::size_t columns);

// Peaks of a heap during parts of a run: the phases of its steps, and the ranges named by the program.

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
