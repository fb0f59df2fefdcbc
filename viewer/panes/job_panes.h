// SPDX-License-Identifier: Apache-2.0
// Several recordings together: the ranks of a job, and predictions over a program's parameter.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "viewer/model/prediction.h"
#include "viewer/model/ranks.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// The user's click: a rank to show, or one to compare with the shown one.
struct RankChoice {
  std::optional<std::size_t> show, compare;
};

/// `shown`: the file that is open.
RankChoice draw_ranks(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown);

/// `view`: null until it is ready.
void draw_prediction(Scene& scene, const PredictionView* view);

}  // namespace memreel::viewer
