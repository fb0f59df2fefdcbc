// SPDX-License-Identifier: Apache-2.0
// What several panes draw: labels of stacks, the legend of categories, the filter menus.
#pragma once

#include <memory>
#include <unordered_map>

#include "viewer/model/findings.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {

/// The maker of an allocation: the label of its stack or, without one, the phase in which it was made, if known.
std::string maker_label(const Scene& scene, std::uint32_t allocation);

class StackLabels {
 public:
  /// stack_label(); valid until the next call.
  const std::string& of(const Scene& scene, StackId stack);
  /// The text on a block besides its size: its category if blocks are coloured by category, else its maker.
  const std::string& of_block(const Scene& scene, std::uint32_t allocation);

 private:
  std::shared_ptr<const Tables> tables_;  // the tables that the labels belong to
  std::unordered_map<StackId, std::string> labels_;
  std::string words_;
};

/// Draws a row for each category that holds anything, largest first: colour, name, bytes, share, allocations. A click
/// on a row selects its category. `place`: prefix of the rows' positions, "PLACE/activation"; empty: rows can't be
/// clicked.
void draw_categories(Scene& scene, const LiveByCategory& live, const std::string& place = {});

/// Drawn on the current line as far as there is room. The size becomes part of the search text.
void draw_filter_bar(Scene& scene);

}  // namespace memreel::viewer
