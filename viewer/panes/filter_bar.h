// The filter menus: a category, a minimum size.
#pragma once

#include "viewer/panes/scene.h"

namespace memreel::viewer {

/// Drawn on the current line as far as there is room. The size becomes part of the search text.
void draw_filter_bar(Scene& scene);

}  // namespace memreel::viewer
