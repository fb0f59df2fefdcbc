// What lists and pictures are limited to, to choose: a category, a least size.
#pragma once

#include "viewer/panes/scene.h"

namespace memreel::viewer {

/// On the current line, as far as there is room. The size is a part of what is typed into the search.
void draw_filter_bar(Scene& scene);

}  // namespace memreel::viewer
