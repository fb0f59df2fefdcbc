#include "analyzer/report/category_style.h"

#include <array>
#include <cstdio>

namespace memreel {

// The hues of Okabe and Ito for the categories that are largest in most programs; the others are chosen so that no two
// look alike to people with colour vision deficiencies. Red is for leaks and failures.
std::span<const CategoryStyle> category_styles() {
  static constexpr std::array<CategoryStyle, category_count> styles{{
      {Category::parameter, 0x0072b2, 0x0072b2},
      {Category::buffer, 0x8a80e0, 0x8a80e0},
      {Category::parameter_copy, 0x2f36d8, 0x2f36d8},
      {Category::optimizer_state, 0xe69f00, 0xe69f00},
      {Category::gradient, 0x009e73, 0x009e73},
      {Category::kv_cache, 0xcc79a7, 0xcc79a7},
      {Category::graph_pool, 0x774d1a, 0x8d5f26},
      {Category::workspace, 0xa6e487, 0xa6e487},
      {Category::communication, 0x7a1078, 0x7a1078},
      {Category::input, 0xf0e442, 0xf0e442},
      {Category::activation, 0x56b4e9, 0x56b4e9},
      {Category::temporary, 0x4f5963, 0x5f6974},
      {Category::unknown, 0xb0b6bc, 0xc9ced4},
  }};
  return styles;
}

std::string css_colours(bool dark) {
  std::string css;
  for (const CategoryStyle& style : category_styles()) {
    std::array<char, 8> rgb{};
    std::snprintf(rgb.data(), rgb.size(), "#%06x", (dark ? style.on_dark : style.on_light) & 0xffffffU);
    css += "--" + std::string(name_of(style.category)) + ":" + rgb.data() + ";";
  }
  return css;
}

std::string css_colour(Category category) { return "var(--" + std::string(name_of(category)) + ")"; }

}  // namespace memreel
