// Live memory by category, as a legend with figures.
#pragma once

#include "viewer/model/classification.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// Draws a row for each category that holds anything, largest first: colour, name, bytes, share, allocations. A click
/// on a row selects its category. `place`: prefix of the rows' positions, "PLACE/activation"; empty: rows can't be
/// clicked.
void draw_categories(Scene& scene, const LiveByCategory& live, const std::string& place = {});

}  // namespace memreel::viewer
