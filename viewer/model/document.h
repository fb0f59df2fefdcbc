// SPDX-License-Identifier: Apache-2.0
// A trace with indexes that answer the panes' queries in time that does not grow with it.
//
// A Document is one version, immutable and safe to read on any thread. While a file is being read or written, longer
// versions follow, which share nearly all storage with the earlier ones.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>

#include "analyzer/describe/shortcomings.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel::viewer {

// Columns that one thread appends to while others read a snapshot.

/// Rows per block of storage.
inline constexpr std::size_t block_rows = std::size_t{1} << 16U;

/// A snapshot of a column of `T`. Cheap to copy, immutable, safe to read on any thread.
template <class T>
class ColumnView {
 public:
  using Block = std::shared_ptr<T[]>;  // NOLINT(modernize-avoid-c-arrays): storage of one block

  ColumnView() = default;
  ColumnView(std::shared_ptr<const std::vector<Block>> blocks, std::size_t count)
      : blocks_(std::move(blocks)), count_(count) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const T& operator[](std::size_t i) const { return (*blocks_)[i / block_rows][i % block_rows]; }
  const T& back() const { return (*this)[count_ - 1]; }

 private:
  std::shared_ptr<const std::vector<Block>> blocks_;
  std::size_t count_ = 0;
};

/// The writer's end of a column. Rows never move, so views stay valid while it grows.
template <class T>
class Growing {
 public:
  template <class... Arguments>
  void push_back(Arguments&&... arguments) {
    if (count_ % block_rows == 0)
      blocks_.push_back(std::shared_ptr<T[]>(new T[block_rows]));  // NOLINT(modernize-avoid-c-arrays)
    (*this)[count_] = T{std::forward<Arguments>(arguments)...};
    ++count_;
  }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return blocks_[i / block_rows][i % block_rows]; }
  const T& operator[](std::size_t i) const { return blocks_[i / block_rows][i % block_rows]; }

  ColumnView<T> view() const {
    return {std::make_shared<const std::vector<typename ColumnView<T>::Block>>(blocks_.begin(), blocks_.end()), count_};
  }

 private:
  std::vector<typename ColumnView<T>::Block> blocks_;
  std::size_t count_ = 0;
};

/// An event's ordinal that is written once, later, into a row that views already see. A view of `n` events treats
/// values
/// >= `n` as "not yet", so it never changes.
class LateEvent {
 public:
  static constexpr std::uint32_t never = 0xFFFF'FFFF;

  LateEvent() = default;
  LateEvent& operator=(const LateEvent& other) {
    value_.store(other.value_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  LateEvent(const LateEvent& other) : value_(other.value_.load(std::memory_order_relaxed)) {}
  ~LateEvent() = default;

  std::uint32_t get() const { return value_.load(std::memory_order_relaxed); }
  void set(std::uint32_t event) { value_.store(event, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> value_{never};
};

// The series of a heap's metrics over the events of a trace, at every zoom: exact minima, maxima and last values of any
// range of events from a few nodes.

/// The tracked metrics of a heap, in bytes unless stated otherwise.
enum class Metric : std::uint8_t {
  live,           // requested and not freed
  held,           // live, or freed but still used by the device
  reserved,       // segments
  fragmentation,  // share of reserved that is not held, in millionths; 0 while more is held than the known segments
                  // have
};
inline constexpr std::size_t metric_count = 4;
using Metrics = std::array<std::uint64_t, metric_count>;  // by Metric

inline std::uint64_t& part(Metrics& metrics, Metric f) { return metrics[static_cast<std::size_t>(f)]; }
inline std::uint64_t value_of(const Metrics& metrics, Metric f) { return metrics[static_cast<std::size_t>(f)]; }

/// The range of the metrics over a run of events.
struct Extent {
  Metrics min{}, max{}, last{};

  static Extent at(const Metrics& metrics) { return {metrics, metrics, metrics}; }
  /// Appends a later run.
  void add(const Extent& later) {
    for (std::size_t f = 0; f < metric_count; ++f) {
      min[f] = std::min(min[f], later.min[f]);
      max[f] = std::max(max[f], later.max[f]);
    }
    last = later.last;
  }
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Events in a node of the lowest level, and nodes in one of the next level.
inline constexpr std::uint32_t leaf_events = 128;
inline constexpr std::uint32_t fan_out_bits = 4, fan_out = 1U << fan_out_bits;

/// Whole leaves only; Document::extent adds partial ones.
class PyramidView {
 public:
  PyramidView() = default;
  explicit PyramidView(std::vector<ColumnView<Extent>> levels) : levels_(std::move(levels)) {}

  const Extent& leaf(std::uint32_t i) const { return levels_[0][i]; }

  /// Over the leaves `begin` .. `end` - 1, at least one. Reads at most 2 x 15 nodes of each level.
  Extent over(std::uint32_t begin, std::uint32_t end) const {
    Extent extent = leaf(begin);
    std::uint32_t level = 0;
    for (std::uint32_t at = begin + 1; at < end; at += 1U << (fan_out_bits * level)) {
      // The largest node that begins here and ends by `end`; at least a leaf does.
      while (is_within(level + 1, at, end)) ++level;
      while (level > 0 && !is_within(level, at, end)) --level;
      extent.add(levels_[level][at >> (fan_out_bits * level)]);
    }
    return extent;
  }

 private:
  /// Whether there is a node of `level` that begins with the leaf `at` and ends with `end` or before.
  bool is_within(std::uint32_t level, std::uint32_t at, std::uint32_t end) const {
    if (level >= levels_.size()) return false;
    const std::uint32_t bits = fan_out_bits * level, leaves = 1U << bits;
    return at % leaves == 0 && end - at >= leaves && (at >> bits) < levels_[level].size();
  }

  std::vector<ColumnView<Extent>> levels_;  // a node exists once all below it do
};

class Pyramid {
 public:
  void push_leaf(const Extent& leaf) {
    if (levels_.empty()) levels_.emplace_back();
    levels_[0].push_back(leaf);
    for (std::size_t level = 0; levels_[level].size() % fan_out == 0; ++level) {
      const Growing<Extent>& below = levels_[level];
      Extent node = below[below.size() - fan_out];
      for (std::size_t i = below.size() - fan_out + 1; i < below.size(); ++i) node.add(below[i]);
      if (level + 1 == levels_.size()) levels_.emplace_back();
      levels_[level + 1].push_back(node);
    }
  }

  PyramidView view() const {
    std::vector<ColumnView<Extent>> levels;
    levels.reserve(levels_.size());
    for (const Growing<Extent>& level : levels_) levels.push_back(level.view());
    return PyramidView(std::move(levels));
  }

 private:
  std::vector<Growing<Extent>> levels_;
};

// Groups stacks that have the same name: one colour, one legend entry.

/// By StackId: the first stack with the same label. Stacks added after this was built stand for themselves.
using SiteTable = std::vector<StackId>;

/// Builds the groups while a trace is read.
class Sites {
 public:
  /// Adds the new stacks. Existing ids don't change.
  std::shared_ptr<const SiteTable> extend(const Tables& tables);

 private:
  SiteTable of_stack_;
  std::vector<std::uint32_t> depth_;
  std::uint64_t frames_ = 0;  // frames processed so far
  std::unordered_map<std::string, StackId> by_label_;
};

inline constexpr std::uint32_t never = LateEvent::never;

/// The lifetime of an allocation. Events are ordinals in the trace.
struct Allocation {
  AllocationId id = AllocationId::none;
  Address address;
  Bytes size;
  StackId stack = StackId::none;
  OriginId origin = OriginId::none;
  std::uint32_t begin = 0;
  std::uint32_t requested = never;  // freed
  std::uint32_t completed = never;  // the device was done with it
};

/// A range of device memory that a heap held from one event to another.
struct Segment {
  Address address;
  Bytes size;
  OriginId origin = OriginId::none;
  bool mapped = false;  // by segment_map
  std::uint32_t begin = 0;
  std::uint32_t end = never;
};

/// An event other than begins and ends of known allocations. An allocation that ended because another one was seen at
/// its address is a free_completed here.
struct OtherEvent {
  std::uint32_t at = 0;  // its ordinal
  Event event;
};

/// What an OtherEvent is made of, and what it changed.
struct OtherRow {
  std::uint32_t at = 0;
  std::uint32_t displaced = never;   // the allocation that this one, at the same address, ended
  std::int64_t reserved_change = 0;  // of its heap, in bytes
};

/// A free that names no allocation, but is at the address of one.
struct FreeByPlace {
  std::uint32_t at = 0;
  std::uint32_t allocation = 0;
};

/// A range between two marks of the same name and thread.
struct MarkSpan {
  StringId name = StringId::none;
  std::uint32_t begin = 0;
  std::uint32_t depth = 0;       // number of enclosing ranges of its thread
  std::uint32_t parent = never;  // the innermost of them
  std::uint32_t number = 1;      // 1-based, among ranges of the same name
};

/// The state after `event` events.
struct Keyframe {
  std::uint32_t event = 0;
  std::uint32_t allocations = 0;    // number that began before
  std::uint32_t segments = 0;       // number that began before
  std::vector<std::uint32_t> held;  // allocations not completed
  std::vector<std::uint32_t> segments_held;
};

/// One heap of the trace, and its time series.
struct HeapSeries {
  HeapId heap = HeapId::none;
  PyramidView pyramid;
  std::uint64_t allocations = 0;
  std::uint64_t failures = 0;
  std::uint64_t peak_live = 0, peak_reserved = 0;
  std::uint32_t peak_live_event = 0, peak_reserved_event = 0;  // the peak is reached after this event
  bool has_segments = false;
  bool has_pending = false;           // whether any free completed later than it was requested
  ColumnView<std::uint32_t> samples;  // rows of Columns::other: memory_info
};

/// Storage shared by all versions; see Document's accessors for its meaning.
struct Columns {
  ColumnView<std::int64_t> leaf_latest;
  ColumnView<LateEvent> requested, completed;
  ColumnView<FreeByPlace> free_by_place;
  ColumnView<Segment> segment;
  ColumnView<LateEvent> segment_end;
  ColumnView<OtherRow> other;
  ColumnView<std::uint32_t> notable;  // rows of `other` worth navigating to: marks, failures, emptied caches
  ColumnView<std::uint32_t> failure;  // rows of `other` that are alloc_failed
  ColumnView<std::uint32_t> emptied;  // rows of `other` that are empty_cache
  ColumnView<std::uint32_t> setting;  // rows of `other` that are settings
  ColumnView<std::uint32_t> instant;  // rows of `other` that are instant marks
  ColumnView<MarkSpan> span;          // in order of their begin
  ColumnView<LateEvent> span_end;
  std::uint32_t span_depths = 0;  // the deepest nesting of ranges in a thread
};

class WholeTrace;

class Document {
 public:
  /// Never null. While it is being read, it may have events that this version does not show yet.
  std::shared_ptr<const Trace> trace = std::make_shared<const Trace>();
  /// The trace's, or those of an earlier version with the same contents: whoever has names made of them can keep these.
  std::shared_ptr<const Tables> tables = {trace, &trace->tables};
  std::shared_ptr<const SiteTable> sites = std::make_shared<const SiteTable>();
  bool complete = false;              // the whole file was read
  bool renumbered = false;            // completed (whole_trace.h): events and allocations have new numbers
  std::uint32_t begun_anew = 0;       // how often the file was overwritten with another trace: all ids change then
  std::shared_ptr<WholeTrace> whole;  // its trace, for jobs; null until it is complete
  std::uint32_t shown = 0;            // events of the trace, the first ones
  Older older;                        // until the whole trace is known, none is said to lack its stack
  std::vector<HeapSeries> heaps;
  std::vector<std::shared_ptr<const Keyframe>> keyframes;
  Columns columns;

  std::uint32_t event_count() const { return shown; }
  std::uint32_t allocation_count() const { return static_cast<std::uint32_t>(columns.requested.size()); }
  std::uint32_t segment_count() const { return static_cast<std::uint32_t>(columns.segment.size()); }
  bool empty() const { return event_count() == 0; }
  /// What the trace is known to lack, in sentences; empty if it is complete.
  std::vector<std::string> shortcomings() const;

  /// Only for existing events and allocations.
  Nanoseconds time(std::uint32_t event) const { return trace->events.time(event); }
  EventKind kind(std::uint32_t event) const { return trace->events.kind(event); }
  Allocation allocation(std::uint32_t id) const;
  /// The allocation that `event` begins, frees or completes.
  std::optional<std::uint32_t> allocation_of(std::uint32_t event) const;
  std::uint32_t begin_of(std::uint32_t id) const { return trace->events.begin_of(AllocationId{id}); }
  /// As recorded: without what a free has of its allocation.
  Event recorded(std::uint32_t event) const;
  /// Of a row of columns.other.
  OtherEvent other(std::uint32_t row) const;
  Segment segment(std::uint32_t i) const;
  std::uint32_t span_end(std::uint32_t i) const { return seen(columns.span_end[i].get()); }
  const HeapSeries* series(HeapId heap) const;
  HeapId heap_of(OriginId origin) const { return (*tables)[origin].heap; }

  // Single fields of an Allocation, for loops over many.
  Address address_of(std::uint32_t id) const { return trace->events.address_of(AllocationId{id}); }
  Bytes size_of(std::uint32_t id) const { return trace->events.size_of(AllocationId{id}); }
  StackId stack_of(std::uint32_t id) const { return trace->events.stack(begin_of(id)); }
  /// The representative of all stacks with the same label: it determines their colour.
  StackId site_of(StackId stack) const { return index(stack) < sites->size() ? (*sites)[index(stack)] : stack; }
  /// Of an allocation.
  StackId site_of(std::uint32_t id) const { return site_of(stack_of(id)); }
  OriginId origin_of(std::uint32_t id) const { return trace->events.origin_of(AllocationId{id}); }
  std::uint32_t requested(std::uint32_t id) const { return seen(columns.requested[id].get()); }
  std::uint32_t completed(std::uint32_t id) const { return seen(columns.completed[id].get()); }

  /// The number of events with a time <= `until`. Events are assumed to be in time order; an event out of order counts
  /// as late as the latest before it. `least`: a known lower bound, where the search begins.
  std::uint32_t events_until(Nanoseconds until, std::uint32_t least = 0) const;
  Nanoseconds first_time() const { return empty() ? Nanoseconds{} : time(0); }
  Nanoseconds last_time() const;
  /// The number of allocations that began before `event`.
  std::uint32_t allocations_before(std::uint32_t event) const;
  /// The number of segments that began before `event`.
  std::uint32_t segments_before(std::uint32_t event) const;
  /// The number of `rows`, ascending rows of columns.other, before `event`.
  std::uint32_t rows_before(const ColumnView<std::uint32_t>& rows, std::uint32_t event) const;
  /// The number of rows of columns.other, columns.notable, columns.span before `event`.
  std::uint32_t others_before(std::uint32_t event) const;
  std::uint32_t notables_before(std::uint32_t event) const;
  std::uint32_t spans_before(std::uint32_t event) const;

  /// The metrics of a heap after `events` events.
  Metrics metrics_after(const HeapSeries& heap, std::uint32_t events) const;
  /// The extent of the metrics after each of the events `begin` .. `end` - 1 (at least one; at most event_count()).
  Extent extent(const HeapSeries& heap, std::uint32_t begin, std::uint32_t end) const;
  /// The first of the events `begin` .. `end` - 1 (at least one) after which `metric` has its maximum over them.
  std::uint32_t highest(const HeapSeries& heap, Metric metric, std::uint32_t begin, std::uint32_t end) const;
  /// The last keyframe at or before `events` events.
  const Keyframe& keyframe_before(std::uint32_t events) const;

 private:
  std::uint32_t seen(std::uint32_t event) const { return event < event_count() ? event : never; }
};

/// Derives `fragmentation` from the others.
inline void settle(Metrics& metrics) {
  const std::uint64_t held = value_of(metrics, Metric::held), reserved = value_of(metrics, Metric::reserved);
  // Floating point, because a million times a device's memory may overflow.
  metrics[static_cast<std::size_t>(Metric::fragmentation)] =
      reserved > held
          ? static_cast<std::uint64_t>(1e6 * (1 - static_cast<double>(held) / static_cast<double>(reserved)))
          : 0;
}

}  // namespace memreel::viewer
