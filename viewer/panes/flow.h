// SPDX-License-Identifier: Apache-2.0
// Lays out things of a given size from left to right, in as many lines as they need.
#pragma once

#include <imgui.h>

#include <algorithm>

#include "viewer/panes/draw.h"

namespace memreel::viewer {

class Flow {
 public:
  Flow(ImVec2 from, float width, float line_gap) : from_(from), at_(from), width_(width), gap_(line_gap) {}

  /// Of a whole line.
  float width() const { return width_; }
  /// The place of the next thing, after a space of `before`; on a new line if it does not fit on this one.
  Area next(ImVec2 size, float before = 0) {
    if (at_.x > from_.x) {
      at_.x += before;
      if (at_.x + size.x > from_.x + width_) new_line();
    }
    const Area area{at_.x, at_.y, at_.x + size.x, at_.y + size.y};
    at_.x += size.x;
    line_ = std::max(line_, size.y);
    return area;
  }
  void new_line() {
    if (at_.x == from_.x) return;
    at_ = {from_.x, at_.y + line_ + gap_};
    line_ = 0;
  }
  /// Of all lines so far.
  float height() const { return at_.x == from_.x ? std::max(at_.y - gap_ - from_.y, 0.0F) : at_.y + line_ - from_.y; }

 private:
  ImVec2 from_, at_;
  float width_, gap_, line_ = 0;
};

}  // namespace memreel::viewer
