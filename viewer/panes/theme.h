// SPDX-License-Identifier: Apache-2.0
// Colours: a quiet background, few lines, and data colours that everybody can distinguish.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <imgui.h>

#include "analyzer/analysis/category/category.h"

namespace memreel::viewer {

/// 0xAABBGGRR, as in ImGui and textures.
using Colour = std::uint32_t;

constexpr Colour rgb(std::uint32_t hex, std::uint32_t alpha = 0xFF) {
  return (alpha << 24U) | ((hex & 0xFFU) << 16U) | (hex & 0xFF00U) | (hex >> 16U);
}
constexpr Colour with_alpha(Colour colour, std::uint32_t alpha) { return (colour & 0x00FF'FFFFU) | (alpha << 24U); }
/// From `a` (share 0) to `b` (share 1).
Colour mix(Colour a, Colour b, double share);

/// The ratio of contrast of WCAG 2: 1 to 21.
double contrast(Colour a, Colour b);

/// Black or white text, whichever is more legible on `ground`; its contrast is at least 4.5.
Colour ink_on(Colour ground);

struct Theme {
  bool dark = true;
  Colour ground{}, panel{}, line{}, text{}, faint{}, accent{}, alarm{};
  Colour popup{}, edge{};             // menus and dialogs; their edge, and that of radio buttons
  Colour alarm_ink{}, held_ink{};     // for text
  Colour segment{}, free{};           // reserved memory; the edge of what is free in it
  Colour rounding{};                  // the part taken beyond the request
  Colour reserved{}, held{}, live{};  // series
  Colour selection{};

  /// The six hues of Okabe and Ito other than the alarm's, ordered so that neighbours contrast.
  Colour hue(std::size_t i) const;
  /// Category colours: analyzer/describe/live_groups.h.
  Colour category(Category category) const;
  /// For many items: the six hues in three shades.
  Colour shade(std::uint64_t hash) const;
  /// The same for thousands of items: shades()[shade_index(hash)].
  static constexpr std::size_t shade_count = 18;
  static std::size_t shade_index(std::uint64_t hash);
  Colour shade_at(std::size_t i) const;
  std::array<Colour, shade_count> shades() const;
  Colour rest() const { return dark ? rgb(0x5B616D) : rgb(0xB4B8C0); }
  /// Of replays laid over the recording: no category's, paler with every further one.
  Colour overlay(std::size_t i) const;
  /// Cividis (Nunez, Anderton, Renslow 2018): reads the same with and without colour blindness. 0 .. 1
  Colour ramp(double share) const;
};

Theme dark_theme();
Theme light_theme();
/// Gives ImGui's own widgets the colours of `theme`; sizes are multiplied by `scale`.
void apply(const Theme& theme, float scale);

}  // namespace memreel::viewer
