// How categories look wherever they are drawn: one order and one colour each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "analyzer/category/category.h"

namespace memreel {

struct CategoryStyle {
  Category category = Category::unknown;
  std::uint32_t rgb = 0;  // 0xRRGGBB
};

/// Every category once, in the order in which they are stacked: what stays longest at the bottom.
std::span<const CategoryStyle> category_styles();

/// "#0072b2".
std::string css_colour(std::uint32_t rgb);

}  // namespace memreel
