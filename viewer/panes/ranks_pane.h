// All ranks of a job as small multiples on one scale.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "viewer/model/ranks.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// The user's click: a rank to show, or one to compare with the shown one.
struct RankChoice {
  std::optional<std::size_t> show, compare;
};

/// `shown`: the file that is open.
RankChoice draw_ranks(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown);

}  // namespace memreel::viewer
