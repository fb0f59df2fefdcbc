// SPDX-License-Identifier: Apache-2.0
// The appearance of categories, for people with full color vision and with color vision deficiencies.
#include "analyzer/describe/live_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace memreel {
namespace {

TEST(Palette, EveryCategoryHasOnePlace) {
  std::set<Category> seen;
  for (const CategoryStyle& style : category_styles()) EXPECT_TRUE(seen.insert(style.category).second);
  EXPECT_EQ(seen.size(), category_count);
}

/// The distance of two colors as seen through `sight`: CIE 1976.
using Sight = std::array<std::array<double, 3>, 3>;

std::array<double, 3> lab(std::uint32_t rgb, const Sight& sight) {
  std::array<double, 3> linear{}, seen{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = static_cast<double>((rgb >> (16 - 8 * i)) & 0xFFU) / 255;
    linear.at(i) = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) seen.at(i) += sight.at(i).at(j) * linear.at(j);
    seen.at(i) = std::clamp(seen.at(i), 0.0, 1.0);
  }
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * seen[0] + 0.3576 * seen[1] + 0.1805 * seen[2]) / 0.9505);
  const double y = f(0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]);
  const double z = f((0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

TEST(Palette, CategoriesAreToldApartByPeopleWhoSeeFewerColours) {
  // Machado, Oliveira, Fernandes (2009), at full severity: protanopia, deuteranopia, tritanopia.
  constexpr std::array<Sight, 4> sights{{
      {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
      {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
      {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
      {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}},
  }};
  constexpr double told_apart = 10;  // a just noticeable difference is 2.3
  constexpr std::uint32_t vermillion = 0xD55E00;
  for (const Sight& sight : sights) {
    const auto distance = [&](std::uint32_t a, std::uint32_t b) {
      const auto p = lab(a, sight), q = lab(b, sight);
      return std::sqrt((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1]) + (p[2] - q[2]) * (p[2] - q[2]));
    };
    for (const CategoryStyle& a : category_styles()) {
      for (const CategoryStyle& b : category_styles()) {
        if (a.category >= b.category) continue;
        EXPECT_GT(distance(a.on_light, b.on_light), told_apart) << name_of(a.category) << ", " << name_of(b.category);
        EXPECT_GT(distance(a.on_dark, b.on_dark), told_apart) << name_of(a.category) << ", " << name_of(b.category);
      }
      EXPECT_GT(distance(a.on_light, 0xFFFFFF), told_apart) << name_of(a.category);
      EXPECT_GT(distance(a.on_dark, 0x1B1E24), told_apart) << name_of(a.category);
      EXPECT_GT(distance(a.on_dark, vermillion), told_apart) << name_of(a.category) << " is not an alarm";
    }
  }
}

}  // namespace
}  // namespace memreel
