#include "analyzer/report/category_style.h"

#include <array>
#include <cstdio>

namespace memreel {

// The colours of Okabe and Ito for what most programs have, tints of them for the rest. Red is for leaks and failures.
std::span<const CategoryStyle> category_styles() {
  static constexpr std::array<CategoryStyle, category_count> styles{{
      {Category::parameter, 0x0072b2},
      {Category::buffer, 0x5d9fca},
      {Category::parameter_copy, 0x8fb8de},
      {Category::optimizer_state, 0xe69f00},
      {Category::gradient, 0x009e73},
      {Category::kv_cache, 0xcc79a7},
      {Category::graph_pool, 0x8c6d31},
      {Category::workspace, 0xb5a642},
      {Category::communication, 0x7b61a8},
      {Category::input, 0xf0e442},
      {Category::activation, 0x56b4e9},
      {Category::temporary, 0x98a2ab},
      {Category::unknown, 0xc8cdd2},
  }};
  return styles;
}

std::string css_colour(std::uint32_t rgb) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%06x", rgb & 0xffffffU);
  return text.data();
}

}  // namespace memreel
