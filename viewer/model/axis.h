// SPDX-License-Identifier: Apache-2.0
// Time axes: their unit (nanoseconds, events, or the program's steps), and two series on one of them.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "analyzer/replay/steps.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

enum class AlignBy : std::uint8_t { time, step };

/// The program's steps: those that it marks, or, once all of the trace is read, those that it shows (rounds.h). Takes
/// as long as a pass over the trace.
Steps steps_of(const Document& document, HeapId heap);

/// Maps one side's times to an axis that both sides share. Cheap to copy.
class SideScale {
 public:
  /// Positions are nanoseconds since `zero`.
  static SideScale by_time(Nanoseconds zero);
  /// Positions are steps: step k, from 0, spans k to k + 1, however long it took. Time after the last mark uses the
  /// scale of the step before it. `document` and `steps` have at least one.
  static SideScale by_step(const Document& document, const Steps& steps);

  /// The same axis, shifted so that `position` becomes 0.
  void move_to_zero(double position) { offset_ -= position; }

  /// The position of the end of the last step.
  double last_step() const { return static_cast<double>(pieces_->begins.size() - 1) + offset_; }
  friend bool operator==(const SideScale&, const SideScale&) = default;

  double position_of(Nanoseconds time) const;
  Nanoseconds time_at(double position) const;

 private:
  struct Pieces {
    std::vector<Nanoseconds> begins;   // of position 0, 1, 2 ...; ascending
    std::vector<double> per_position;  // duration of each in nanoseconds; more than 0
  };
  explicit SideScale(Pieces pieces) : pieces_(std::make_shared<const Pieces>(std::move(pieces))) {}

  std::shared_ptr<const Pieces> pieces_;
  double offset_ = 0;
};

enum class AxisBy : std::uint8_t { time, event, step };
inline constexpr std::array<std::string_view, 3> axis_words{"time", "event", "step"};

/// Maps the instants of a trace to positions on an axis. Cheap to copy, safe to use on any thread.
class AxisScale {
 public:
  /// Positions are nanoseconds.
  AxisScale() = default;
  /// Positions are event numbers: a busy millisecond gets as much room as an idle second.
  static AxisScale by_events(std::shared_ptr<const Document> document);
  /// Positions are steps, all equally wide; `steps`: SideScale::by_step().
  static AxisScale by_steps(const SideScale& steps);

  AxisBy by() const { return document_ ? AxisBy::event : steps_ ? AxisBy::step : AxisBy::time; }
  /// The position of the end of the last step; none if the axis does not count steps.
  std::optional<double> last_step() const { return steps_ ? std::optional(steps_->last_step()) : std::nullopt; }
  double position_of(Nanoseconds time) const;
  Nanoseconds time_at(double position) const;
  /// The bounds of `width` equal parts of the axis, from `begin` to `end` inclusive.
  std::vector<Nanoseconds> edges(Nanoseconds begin, Nanoseconds end, std::uint32_t width) const;

  friend bool operator==(const AxisScale&, const AxisScale&) = default;

 private:
  std::shared_ptr<const Document> document_;  // for axes that count events
  std::optional<SideScale> steps_;
};

// The series of a heap's metrics, event by event and in columns of pixels.

/// Walks a trace in order. The document and the series must outlive it.
class SeriesWalk {
 public:
  /// Starts after `events` events, at most all. Cost: the events of one leaf.
  SeriesWalk(const Document& document, const HeapSeries& heap, std::uint32_t events);

  /// The number of events passed, and the metrics after them.
  std::uint32_t at() const { return at_; }
  const Metrics& metrics() const { return metrics_; }

  /// Advances until `end` events are passed, at least one more and at most all. Returns the extent of the metrics after
  /// each of those events. Visits at most the events of two leaves.
  Extent advance(std::uint32_t end);

 private:
  void begin_at_leaf(std::uint32_t leaf);
  void step();
  void apply_allocation(std::uint32_t id, bool begins);

  const Document& document_;
  const HeapSeries& heap_;
  std::uint32_t at_ = 0;
  std::uint32_t other_ = 0;  // the next row of Columns::other
  Metrics metrics_{};
};

/// The contents of one column of pixels.
struct SeriesColumn {
  Extent extent;            // of the metrics over the column
  std::uint32_t begin = 0;  // its events; if there are none, the extent is that of the current state
  std::uint32_t end = 0;
};

/// One column between each two of `edges`, which are ascending. Every event from the first to the last edge is in one
/// column.
std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap,
                                         std::span<const Nanoseconds> edges);

/// `width` columns from `begin` to `end`. Every event is in one column, so no minimum or maximum is ever left out.
/// A column of 16 leaves or more begins at a whole leaf, which is at most 1/16 of a column off.
std::vector<SeriesColumn> series_columns(const Document& document, const HeapSeries& heap, Nanoseconds begin,
                                         Nanoseconds end, std::uint32_t width);

}  // namespace memreel::viewer
