// What an axis of time counts: nanoseconds, events, or steps of the program.
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

/// Where the instants of a trace lie on an axis. Cheap to copy, safe to use on any thread.
class AxisScale {
 public:
  /// Positions are nanoseconds.
  AxisScale() = default;
  /// Positions are numbers of events: as much room for a busy millisecond as for a second in which nothing happens.
  static AxisScale by_events(std::shared_ptr<const Document> document);
  /// Positions are steps, each as wide as every other; `steps`: SideScale::by_step().
  static AxisScale by_steps(const SideScale& steps);

  AxisBy by() const { return document_ ? AxisBy::event : steps_ ? AxisBy::step : AxisBy::time; }
  /// The position at which the last step ends; none where steps are not counted.
  std::optional<double> last_step() const { return steps_ ? std::optional(steps_->last_step()) : std::nullopt; }
  double position_of(Nanoseconds time) const;
  Nanoseconds time_at(double position) const;
  /// The bounds of `width` equal parts of the axis from `begin` to `end`, which are the first and the last.
  std::vector<Nanoseconds> edges(Nanoseconds begin, Nanoseconds end, std::uint32_t width) const;

  friend bool operator==(const AxisScale&, const AxisScale&) = default;

 private:
  std::shared_ptr<const Document> document_;  // of events
  std::optional<SideScale> steps_;
};

}  // namespace memreel::viewer
