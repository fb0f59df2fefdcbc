// SPDX-License-Identifier: Apache-2.0
// Pixels per unit of length where nothing specifies it: enough to be legible.
#pragma once

#include <algorithm>
#include <cmath>

namespace memreel::viewer {

/// Clamped to 1..4, in steps of one half.
inline float in_halves(float scale) { return std::clamp(std::floor(2 * scale) / 2, 1.0F, 4.0F); }

/// For off-screen pictures: twice the usual scale at 2160 lines.
inline float picture_scale(int lines) { return in_halves(static_cast<float>(lines) / 1080); }

/// For a screen: the desktop's scale. Many desktops report 1 for a 4K screen; then its physical height gives the pixel
/// density. `millimetres`: its height, 0 if unknown.
inline float screen_scale(float desktop, int lines, int millimetres) {
  constexpr int fine = 2000;                                 // lines
  constexpr float usual = 96, millimetres_per_inch = 25.4F;  // pixels per inch
  if (desktop > 1) return std::min(desktop, 4.0F);
  if (lines < fine || millimetres <= 0) return 1;
  return in_halves(static_cast<float>(lines) * millimetres_per_inch / static_cast<float>(millimetres) / usual);
}

}  // namespace memreel::viewer
