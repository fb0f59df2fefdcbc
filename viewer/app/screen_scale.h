// How many pixels a unit of length has where nobody says so: what is legible.
#pragma once

#include <algorithm>
#include <cmath>

namespace memreel::viewer {

/// At least 1, at most 4, in halves.
inline float in_halves(float scale) { return std::clamp(std::floor(2 * scale) / 2, 1.0F, 4.0F); }

/// Of a picture that nobody's screen shows: twice the usual at 2160 lines.
inline float picture_scale(int lines) { return in_halves(static_cast<float>(lines) / 1080); }

/// Of a screen: as the desktop says. Many say 1 of a screen with 4K; how high it is tells how fine its pixels are.
/// `millimetres`: its height, 0 where that is not known.
inline float screen_scale(float desktop, int lines, int millimetres) {
  constexpr int fine = 2000;                                 // lines
  constexpr float usual = 96, millimetres_per_inch = 25.4F;  // pixels per inch
  if (desktop > 1) return std::min(desktop, 4.0F);
  if (lines < fine || millimetres <= 0) return 1;
  return in_halves(static_cast<float>(lines) * millimetres_per_inch / static_cast<float>(millimetres) / usual);
}

}  // namespace memreel::viewer
