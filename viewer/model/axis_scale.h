// The unit of a time axis: nanoseconds, events, or the program's steps.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "viewer/model/alignment.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

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
