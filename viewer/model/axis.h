// SPDX-License-Identifier: Apache-2.0
// Time axes: their unit (nanoseconds, events, or the program's steps), and two series on one of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/replay/steps.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

enum class AlignBy : std::uint8_t { time, step };

/// The program's steps, from its marks; none if it has none.
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

}  // namespace memreel::viewer
