// SPDX-License-Identifier: Apache-2.0
// The answer about a job, and its ranks over one clock.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "viewer/model/ranks.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

/// The user's click: a rank to show, or one to compare with the shown one.
struct RankChoice {
  std::optional<std::size_t> show, compare;  // indices into Ranks::files()
};

class RanksPane {
 public:
  /// `shown`: the file that is open; empty: none.
  RankChoice draw(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown);
  /// Whether the ranks that are alike are listed.
  bool is_unfolded(std::size_t file) const { return unfolded_.contains(file); }

 private:
  /// What all lines of a job have in common in a frame.
  struct Chart {
    const Ranks* ranks = nullptr;
    const std::filesystem::path* shown = nullptr;
    Bytes top;
    bool one_clock = false;
    Nanoseconds begin{}, end{};
  };

  void draw_progress(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown);
  void draw_job(Scene& scene, const Ranks& ranks, const JobOverview& job, const std::filesystem::path& shown);
  void draw_clock(Scene& scene, const JobOverview& job, const Chart& chart);
  void draw_line(Scene& scene, const Chart& chart, const RankLine& line);
  void draw_others(Scene& scene, const Chart& chart, const RankLine& line);
  void draw_text(Scene& scene, const Area& area, const RankLine& line, bool is_shown, float room);
  void draw_lane(Scene& scene, const Area& area, const Chart& chart, const RankLine& line, bool is_shown,
                 bool is_hovered);
  void tell(Scene& scene, const Area& area, const Chart& chart, const RankLine& line) const;

  std::set<std::size_t> unfolded_;  // first files of lines that list their ranks
  RankChoice choice_;               // in this frame
};

}  // namespace memreel::viewer
