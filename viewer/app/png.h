// Screenshots as files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "formats/model/result.h"

namespace memreel::viewer {

/// Writes RGBA pixels, row by row from the top, as a PNG without alpha. An incomplete file is removed.
/// `few_colours`: at most 64 (palette.h), which makes files several times smaller.
Result<void> write_png(const std::filesystem::path& path, std::uint32_t width, std::uint32_t height,
                       std::span<const std::uint8_t> rgba, bool few_colours = false);

}  // namespace memreel::viewer
