// What is live, by what it is for: as a legend with all numbers.
#pragma once

#include "viewer/model/classification.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// A row for each category that holds anything, the largest first: colour, name, bytes, share, allocations. Where rows
/// can be clicked, a click selects the category; `place`: of their places, "PLACE/activation"; empty: they can't.
void draw_categories(Scene& scene, const LiveByCategory& live, const std::string& place = {});

}  // namespace memreel::viewer
