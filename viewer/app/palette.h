// Reduces a picture to few colours, for small files.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace memreel::viewer {

struct Paletted {
  std::vector<std::uint32_t> colours;  // 0xRRGGBB, at most 64
  std::vector<std::uint8_t> pixels;    // index into colours
};

/// Exact if the picture has at most 64 colours. Else half of the palette goes to the most frequent, so that backgrounds
/// and areas keep their colours; the others share the rest by median cut (Heckbert 1982). `rgba`: four bytes a pixel.
Paletted with_palette(std::span<const std::uint8_t> rgba);

}  // namespace memreel::viewer
