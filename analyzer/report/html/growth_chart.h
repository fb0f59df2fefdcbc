// A program's memory over the size it runs at, as a self-contained HTML chart.
#pragma once

#include <string>

#include "analyzer/predict/chart.h"

namespace memreel {

/// An SVG that stretches to the width of the page, from 0 to the largest value and to the most bytes. A limit more than
/// three times as high is mentioned instead of drawn: the curve would be flat. Empty without points.
std::string growth_chart(const GrowthChart& chart);

}  // namespace memreel
