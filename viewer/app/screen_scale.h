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

/// Pixels of the picture per unit of the window's coordinates: on X11 these are pixels, on Wayland the compositor's
/// units, in which the desktop's scale is contained already. Either way text has the same size.
inline float pixels_per_unit(int picture_width, int window_width) {
  if (picture_width <= 0 || window_width <= 0) return 1;
  return std::clamp(static_cast<float>(picture_width) / static_cast<float>(window_width), 0.5F, 4.0F);
}

}  // namespace memreel::viewer
