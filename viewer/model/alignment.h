// Two series on one axis, aligned by time or step by step.
#pragma once

#include <cstdint>
#include <memory>
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

}  // namespace memreel::viewer
