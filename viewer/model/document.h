// The viewer's representation of a trace: compact columns, and indexes that answer the panes' queries in time that does
// not grow with the trace.
//
// A Document is one version, immutable and safe to read on any thread. While a file is being read or written,
// DocumentBuilder publishes longer versions that share all storage with the earlier ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/trace.h"
#include "viewer/model/growing.h"
#include "viewer/model/pyramid.h"
#include "viewer/model/sites.h"

namespace memreel::viewer {

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

/// Events other than begins and ends of known allocations. An allocation that ended because another one was seen at its
/// address is a free_completed here.
struct OtherEvent {
  std::uint32_t at = 0;  // its ordinal
  Event event;
  std::int64_t reserved_change = 0;  // of its heap, in bytes
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
  PackedView time_offset, target;
  ColumnView<std::int64_t> leaf_time, leaf_latest;
  ColumnView<std::uint32_t> leaf_allocation;
  PackedView address, size, stack, origin;
  ColumnView<LateEvent> requested, completed;
  ColumnView<Segment> segment;
  ColumnView<LateEvent> segment_end;
  ColumnView<OtherEvent> other;
  ColumnView<std::uint32_t> notable;  // rows of `other` worth navigating to: marks, failures, emptied caches
  ColumnView<std::uint32_t> failure;  // rows of `other` that are alloc_failed
  ColumnView<std::uint32_t> emptied;  // rows of `other` that are empty_cache
  ColumnView<std::uint32_t> instant;  // rows of `other` that are instant marks
  ColumnView<MarkSpan> span;          // in order of their begin
  ColumnView<LateEvent> span_end;
  std::uint32_t span_depths = 0;  // the deepest nesting of ranges in a thread
};

class Document {
 public:
  Header header;
  std::shared_ptr<const Tables> tables = std::make_shared<const Tables>();
  std::shared_ptr<const SiteTable> sites = std::make_shared<const SiteTable>();
  Losses losses;
  std::shared_ptr<const FoldedHistory> folded = std::make_shared<const FoldedHistory>();  // a flight recorder's sums
  ReadReport read;
  std::uint64_t bytes = 0;       // of the file
  bool complete = false;         // the whole file was read
  bool renumbered = false;       // completed for judging (subject.h): events and allocations have new numbers
  std::uint32_t begun_anew = 0;  // how often the file was overwritten with another trace: all ids change then
  std::vector<HeapSeries> heaps;
  std::vector<std::shared_ptr<const Keyframe>> keyframes;
  Columns columns;

  std::uint32_t event_count() const { return static_cast<std::uint32_t>(columns.target.size()); }
  std::uint32_t allocation_count() const { return static_cast<std::uint32_t>(columns.address.size()); }
  std::uint32_t segment_count() const { return static_cast<std::uint32_t>(columns.segment.size()); }
  bool empty() const { return event_count() == 0; }

  /// Only for existing events and allocations.
  Nanoseconds time(std::uint32_t event) const;
  EventKind kind(std::uint32_t event) const;
  Allocation allocation(std::uint32_t id) const;
  /// The allocation that `event` begins, frees or completes.
  std::optional<std::uint32_t> allocation_of(std::uint32_t event) const;
  std::uint32_t begin_of(std::uint32_t allocation) const;
  Segment segment(std::uint32_t i) const;
  std::uint32_t span_end(std::uint32_t i) const { return seen(columns.span_end[i].get()); }
  const HeapSeries* series(HeapId heap) const;
  HeapId heap_of(OriginId origin) const { return (*tables)[origin].heap; }

  // Single fields of an Allocation, for loops over many.
  Bytes size_of(std::uint32_t id) const { return {columns.size[id]}; }
  StackId stack_of(std::uint32_t id) const { return StackId{static_cast<std::uint32_t>(columns.stack[id])}; }
  /// The representative of all stacks with the same label: it determines their colour.
  StackId site_of(StackId stack) const { return index(stack) < sites->size() ? (*sites)[index(stack)] : stack; }
  /// Of an allocation.
  StackId site_of(std::uint32_t id) const { return site_of(stack_of(id)); }
  OriginId origin_of(std::uint32_t id) const { return OriginId{static_cast<std::uint32_t>(columns.origin[id])}; }
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

/// Encodes the subject of an event in `Columns::target`: a row of the allocations, or of `Columns::other`.
enum class EventTarget : std::uint8_t { alloc = 0, free_requested = 1, free_completed = 2, other = 3 };
constexpr std::uint64_t target_of(EventTarget kind, std::uint32_t row) {
  return (std::uint64_t{row} << 2U) | static_cast<std::uint64_t>(kind);
}
constexpr EventTarget target_kind(std::uint64_t target) { return static_cast<EventTarget>(target & 3U); }
constexpr std::uint32_t target_row(std::uint64_t target) { return static_cast<std::uint32_t>(target >> 2U); }

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
