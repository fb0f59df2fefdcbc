// SPDX-License-Identifier: Apache-2.0
// What can be read and told apart, by the contrast of WCAG 2.
#include "viewer/panes/theme.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>

#include "analyzer/describe/live_groups.h"

namespace memreel::viewer {
namespace {

constexpr double of_text = 4.5, of_graphics = 3;  // level AA

class Themes : public ::testing::TestWithParam<bool> {
 protected:
  Theme theme_ = GetParam() ? dark_theme() : light_theme();
};

TEST_P(Themes, TextIsLegible) {
  // Text fields and buttons have the last one.
  for (const Colour ground : {theme_.panel, theme_.ground, theme_.popup, mix(theme_.panel, theme_.line, 0.7)})
    for (const Colour ink : {theme_.text, theme_.faint, theme_.alarm_ink, theme_.held_ink})
      EXPECT_GE(contrast(ink, ground), of_text) << std::hex << ink << " on " << ground;
  for (const Colour ground : {theme_.panel, theme_.ground, theme_.popup})
    EXPECT_GE(contrast(theme_.accent, ground), of_text) << std::hex << ground;
}

TEST_P(Themes, TextOnDataIsLegible) {
  for (const CategoryStyle& style : category_styles()) {
    const Colour ground = theme_.category(style.category);
    EXPECT_GE(contrast(ink_on(ground), ground), of_text) << words_of(style.category);
  }
  EXPECT_GE(contrast(ink_on(theme_.alarm), theme_.alarm), of_text);
}

TEST_P(Themes, FreeMemoryAndEdgesCanBeSeen) {
  EXPECT_GE(contrast(theme_.free, theme_.ground), of_graphics) << "in the heap";
  EXPECT_GE(contrast(theme_.free, theme_.panel), of_graphics) << "in its legend";
  EXPECT_GE(contrast(theme_.edge, theme_.panel), of_graphics) << "of menus and radio buttons";
}

TEST_P(Themes, WhatIsUnknownRecedes) {
  const auto stands_out = [&](Category category) { return contrast(theme_.category(category), theme_.ground); };
  for (const Category known : {Category::temporary, Category::activation, Category::gradient})
    EXPECT_GT(stands_out(known), stands_out(Category::unknown)) << words_of(known);
}

TEST_P(Themes, ReplaysLookLikeNoCategory) {
  for (std::size_t i = 0; i < 3; ++i)
    for (const CategoryStyle& style : category_styles()) {
      int apart = 0;
      for (const unsigned shift : {0U, 8U, 16U})
        apart += std::abs(static_cast<int>(theme_.overlay(i) >> shift & 0xFFU) -
                          static_cast<int>(theme_.category(style.category) >> shift & 0xFFU));
      EXPECT_GT(apart, 50) << i << " and " << words_of(style.category);
    }
}

INSTANTIATE_TEST_SUITE_P(DarkAndLight, Themes, ::testing::Bool());

}  // namespace
}  // namespace memreel::viewer
