#include "viewer/app/palette.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

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

}  // namespace memreel::viewer
