// What a program needs over the size that it runs at, as a picture in HTML that needs nothing else.
#pragma once

#include <string>

#include "analyzer/predict/chart.h"

namespace memreel {

/// An SVG that stretches to the width of the page, from 0 to the largest value and to the most bytes. A limit above
/// three times those is said, not drawn: the curve would be flat. Empty without points.
std::string growth_chart(const GrowthChart& chart);

}  // namespace memreel
