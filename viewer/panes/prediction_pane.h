// SPDX-License-Identifier: Apache-2.0
// Recordings at several sizes together: predictions over a program's parameter.
#pragma once

#include "viewer/model/prediction.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// `view`: null until it is ready.
void draw_prediction(Scene& scene, const PredictionView* view);

}  // namespace memreel::viewer
