// Memory over the size that a program runs at: what was recorded, and what is predicted.
#pragma once

#include "viewer/model/prediction.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// `view` null: still on its way.
void draw_prediction(Scene& scene, const PredictionView* view);

}  // namespace memreel::viewer
