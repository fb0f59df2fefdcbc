// How categories look wherever they are drawn: one order and one colour each.
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

/// Every category once, in the order in which they are stacked: what stays longest at the bottom.
std::span<const CategoryStyle> category_styles();

/// Every colour as a property of CSS, "--parameter:#0072b2;", on a light ground or a dark one.
std::string css_colours(bool dark);
/// "var(--parameter)".
std::string css_colour(Category category);

}  // namespace memreel
