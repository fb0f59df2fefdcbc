// What a program needs over the size that it runs at, as a picture in HTML that needs nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

struct GrowthChart {
  struct Recorded {
    std::uint64_t at = 0;
    Bytes live, reserved;
  };
  struct Predicted {
    std::uint64_t at = 0;
    Bytes live, reserved, low, high;
    bool asked = false;  // gets a point and a number below
  };

  std::string parameter;
  std::vector<Recorded> recorded;    // ascending
  std::vector<Predicted> predicted;  // ascending
  std::optional<Bytes> limit;        // of what may be reserved
  std::string limit_name;            // what is written at its line
};

/// An SVG that stretches to the width of the page, from 0 to the largest value and to the most bytes. A limit above
/// three times those is said, not drawn: the curve would be flat. Empty without points.
std::string growth_chart(const GrowthChart& chart);

}  // namespace memreel
