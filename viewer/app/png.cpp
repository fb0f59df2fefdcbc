// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/png.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace memreel::viewer {
namespace {

constexpr std::size_t most_colours = 64, most_exact = 32;

struct Counted {
  std::uint32_t colour = 0;
  std::uint64_t count = 0;
};
using Box = std::span<Counted>;

unsigned channel(std::uint32_t colour, unsigned shift) { return (colour >> shift) & 0xFFU; }

/// The largest extent of a box's colours over the channels.
std::pair<unsigned, unsigned> widest(Box box) {
  std::pair<unsigned, unsigned> best{0, 16};
  for (const unsigned shift : {16U, 8U, 0U}) {
    const auto [least, most] =
        std::ranges::minmax_element(box, {}, [&](const Counted& c) { return channel(c.colour, shift); });
    const unsigned width = channel(most->colour, shift) - channel(least->colour, shift);
    if (width > best.first) best = {width, shift};
  }
  return best;
}

std::uint32_t mean(Box box) {
  std::uint64_t total = 0, red = 0, green = 0, blue = 0;
  for (const Counted& c : box) {
    total += c.count;
    red += c.count * channel(c.colour, 16);
    green += c.count * channel(c.colour, 8);
    blue += c.count * channel(c.colour, 0);
  }
  return static_cast<std::uint32_t>(((red / total) << 16U) | ((green / total) << 8U) | (blue / total));
}

/// Repeatedly splits the box with the largest extent at the median of its pixels.
std::vector<Box> cut(std::vector<Counted>& colours, std::size_t wanted) {
  std::vector<Box> boxes{Box(colours)};
  while (boxes.size() < wanted) {
    const auto box = std::ranges::max_element(boxes, {}, [](Box b) { return widest(b).first; });
    const auto [width, shift] = widest(*box);
    if (width == 0) break;
    std::ranges::sort(*box, {}, [shift = shift](const Counted& c) { return channel(c.colour, shift); });
    std::uint64_t total = 0, before = 0;
    for (const Counted& c : *box) total += c.count;
    std::size_t at = 0;
    while (at + 2 < box->size() && before + (*box)[at].count < total / 2) before += (*box)[at++].count;
    const Box first = box->first(at + 1), second = box->subspan(at + 1);
    *box = first;
    boxes.push_back(second);
  }
  return boxes;
}

}  // namespace

Paletted with_palette(std::span<const std::uint8_t> rgba) {
  const auto colour_at = [&](std::size_t pixel) {
    return static_cast<std::uint32_t>((rgba[4 * pixel] << 16U) | (rgba[4 * pixel + 1] << 8U) | rgba[4 * pixel + 2]);
  };
  std::unordered_map<std::uint32_t, std::uint64_t> counts;
  for (std::size_t i = 0; i < rgba.size() / 4; ++i) ++counts[colour_at(i)];
  std::vector<Counted> colours;
  for (const auto& [colour, count] : counts) colours.push_back({colour, count});
  std::ranges::sort(colours, [](const Counted& a, const Counted& b) {
    return a.count != b.count ? a.count > b.count : a.colour < b.colour;
  });

  Paletted picture;
  std::unordered_map<std::uint32_t, std::uint8_t> place;
  const std::size_t exact = colours.size() <= most_colours ? colours.size() : most_exact;
  for (std::size_t i = 0; i < exact; ++i) {
    place[colours[i].colour] = static_cast<std::uint8_t>(i);
    picture.colours.push_back(colours[i].colour);
  }
  std::vector<Counted> others(colours.begin() + static_cast<std::ptrdiff_t>(exact), colours.end());
  if (!others.empty())
    for (const Box box : cut(others, most_colours - exact)) {
      for (const Counted& c : box) place[c.colour] = static_cast<std::uint8_t>(picture.colours.size());
      picture.colours.push_back(mean(box));
    }
  picture.pixels.reserve(rgba.size() / 4);
  for (std::size_t i = 0; i < rgba.size() / 4; ++i) picture.pixels.push_back(place[colour_at(i)]);
  return picture;
}

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
