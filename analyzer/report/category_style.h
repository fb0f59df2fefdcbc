// The appearance of categories in all charts: one order and one colour each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "analyzer/category/category.h"

namespace memreel {

struct CategoryStyle {
  Category category = Category::unknown;
  std::uint32_t on_light = 0, on_dark = 0;  // 0xRRGGBB
};

/// Every category once, in stacking order: the longest-lived at the bottom.
std::span<const CategoryStyle> category_styles();

/// Every colour as a CSS property, "--parameter:#0072b2;", for a light or a dark background.
std::string css_colours(bool dark);
/// "var(--parameter)".
std::string css_colour(Category category);

}  // namespace memreel
