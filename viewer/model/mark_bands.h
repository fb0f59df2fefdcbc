// SPDX-License-Identifier: Apache-2.0
// Ranges between marks, shown one by one or merged into bands, as space allows.
#pragma once

#include <functional>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// One range, or neighbours of the same depth that are too narrow to distinguish.
struct MarkBand {
  StringId name = StringId::none;  // of the first
  std::uint32_t number = 1;        // of the first: MarkSpan::number
  std::uint32_t depth = 0;         // 0: the outermost ranges
  bool same_name = true;           // of all
  bool counted = true;             // false: `count` is a lower bound
  std::uint32_t count = 1;
  Nanoseconds begin{}, end{};
  double left = 0, right = 0;  // in pixels
};

struct BandLimits {
  double narrowest = 10;     // minimum width in pixels of a range shown alone
  double apart = 2;          // maximum distance in pixels between neighbours in a band
  std::uint32_t depths = 1;  // number of depths shown
};

/// The ranges that begin in view, and earlier ones that reach into it, if they are among the last of their thread or
/// enclose those. Ordered by begin. `x_of`: the pixel position of an instant. Visits only a few times as many ranges as
/// there are pixels.
std::vector<MarkBand> mark_bands(const Document& document, std::uint32_t first_event, std::uint32_t end_event,
                                 const std::function<double(Nanoseconds)>& x_of,
                                 const std::function<Nanoseconds(double)>& time_at, const BandLimits& limits);

/// "step 13", "60 x step", "7 ranges". A name that ends in a number gets no other.
std::string title_of(const Tables& tables, const MarkBand& band);

}  // namespace memreel::viewer
