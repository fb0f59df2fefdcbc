// Ranges between marks as there is room for them: one by one, or many in one band.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// One range of the outermost level, or neighbours that are too narrow to be told apart.
struct MarkBand {
  StringId name = StringId::none;  // of the first
  bool same_name = true;           // of all
  bool counted = true;             // false: there are more than `count`
  std::uint32_t count = 1;
  Nanoseconds begin{}, end{};
  double left = 0, right = 0;  // in pixels
};

struct BandLimits {
  double narrowest = 10;  // pixels, of a range that stands alone
  double apart = 2;       // pixels between neighbours of one band, at most
};

/// Those that begin in view, and one that began before. `x_of`: pixels of an instant. Looks at no more ranges than a
/// few times as many as there are pixels.
std::vector<MarkBand> mark_bands(const Document& document, std::uint32_t first_event, std::uint32_t end_event,
                                 const std::function<double(Nanoseconds)>& x_of,
                                 const std::function<Nanoseconds(double)>& time_at, const BandLimits& limits);

}  // namespace memreel::viewer
