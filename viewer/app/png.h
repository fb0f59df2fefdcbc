// SPDX-License-Identifier: Apache-2.0
// Screenshots as files, with few colours where that makes them small.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "formats/model/result.h"

namespace memreel::viewer {

struct Paletted {
  std::vector<std::uint32_t> colours;  // 0xRRGGBB, at most 64
  std::vector<std::uint8_t> pixels;    // index into colours
};

/// Exact if the picture has at most 64 colours. Else half of the palette goes to the most frequent, so that backgrounds
/// and areas keep their colours; the others share the rest by median cut (Heckbert 1982). `rgba`: four bytes a pixel.
Paletted with_palette(std::span<const std::uint8_t> rgba);

/// Writes RGBA pixels, row by row from the top, as a PNG without alpha. An incomplete file is removed.
/// `few_colours`: at most 64, which makes files several times smaller.
Result<void> write_png(const std::filesystem::path& path, std::uint32_t width, std::uint32_t height,
                       std::span<const std::uint8_t> rgba, bool few_colours = false);

}  // namespace memreel::viewer
