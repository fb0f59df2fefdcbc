// Ranges between marks as there is room for them: one by one, or many in one band.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// One range, or neighbours of one depth that are too narrow to be told apart.
struct MarkBand {
  StringId name = StringId::none;  // of the first
  std::uint32_t number = 1;        // of the first: MarkSpan::number
  std::uint32_t depth = 0;         // 0: the outermost ranges
  bool same_name = true;           // of all
  bool counted = true;             // false: there are more than `count`
  std::uint32_t count = 1;
  Nanoseconds begin{}, end{};
  double left = 0, right = 0;  // in pixels
};

struct BandLimits {
  double narrowest = 10;     // pixels, of a range that stands alone
  double apart = 2;          // pixels between neighbours of one band, at most
  std::uint32_t depths = 1;  // as deep as ranges are shown
};

/// Those that begin in view, and those that began before and reach into it, as far as they are among the last of their
/// thread or around them. In order of their begin. `x_of`: pixels of an instant. Looks at no more ranges than a few
/// times as many as there are pixels.
std::vector<MarkBand> mark_bands(const Document& document, std::uint32_t first_event, std::uint32_t end_event,
                                 const std::function<double(Nanoseconds)>& x_of,
                                 const std::function<Nanoseconds(double)>& time_at, const BandLimits& limits);

/// "step 13", "60 x step", "7 ranges". A name that ends in a number has one already.
std::string title_of(const Tables& tables, const MarkBand& band);

}  // namespace memreel::viewer
