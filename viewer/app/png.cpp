#include "viewer/app/png.h"

#include <zlib.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/app/palette.h"

namespace memreel::viewer {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xFFU);
  return bytes;
}

/// Chunks: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", section 5.3.
std::string chunk(std::string_view type, const std::string& data) {
  std::string body = std::string(type) + data;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(crc));
}

/// Each row is encoded as the difference from the one above (filter 2): areas of one colour become zeros.
std::vector<std::uint8_t> differences(std::uint32_t width, std::uint32_t height, std::span<const std::uint8_t> rgba) {
  std::vector<std::uint8_t> rows;
  rows.reserve(std::size_t{height} * (std::size_t{width} * 3 + 1));
  for (std::size_t y = 0; y < height; ++y) {
    rows.push_back(2);
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t at = (y * width + x) * 4 + c;
        const std::uint8_t above = y == 0 ? 0 : rgba[at - std::size_t{width} * 4];
        rows.push_back(static_cast<std::uint8_t>(rgba[at] - above));
      }
  }
  return rows;
}

}  // namespace

Result<void> write_png(const std::filesystem::path& path, std::uint32_t width, std::uint32_t height,
                       std::span<const std::uint8_t> rgba, bool few_colours) {
  std::vector<std::uint8_t> rows;
  std::string palette;
  if (few_colours) {
    const Paletted picture = with_palette(rgba);
    for (const std::uint32_t colour : picture.colours) palette += big_endian(colour).substr(1);
    for (std::size_t y = 0; y < height; ++y) {
      rows.push_back(0);
      rows.insert(rows.end(), picture.pixels.begin() + static_cast<std::ptrdiff_t>(y * width),
                  picture.pixels.begin() + static_cast<std::ptrdiff_t>((y + 1) * width));
    }
  } else {
    rows = differences(width, height, rgba);
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string compressed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(compressed.data()), &size, rows.data(), static_cast<uLong>(rows.size()),
                few_colours ? 9 : 6) != Z_OK)  // 9: another 2 % off a screenshot, for eight times the work
    return Error{.what = "can't compress the picture", .where = path.string()};
  compressed.resize(size);

  const std::string header = big_endian(width) + big_endian(height) +
                             std::string(few_colours ? "\x08\x03\x00\x00\x00" : "\x08\x02\x00\x00\x00", 5);
  std::ofstream file(path, std::ios::binary);
  file << std::string_view("\x89PNG\r\n\x1a\n", 8) << chunk("IHDR", header)
       << (few_colours ? chunk("PLTE", palette) : "") << chunk("IDAT", compressed) << chunk("IEND", "");
  file.close();
  if (file.good()) return {};
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return Error{.what = "can't be written",
               .where = path.string(),
               .remedy = "does the directory exist, and is there space left?"};
}

}  // namespace memreel::viewer
