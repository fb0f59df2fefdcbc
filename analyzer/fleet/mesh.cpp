// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/mesh.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace memreel {
namespace {

constexpr std::uint64_t largest_mesh = 1U << 20U;
// Axis names of Megatron, DeepSpeed, torchtitan and vLLM.
constexpr std::array<std::string_view, 8> known_axes{"pp", "dp", "tp", "cp", "ep", "sp", "fsdp", "stage"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

Error no_mesh(std::string_view text) {
  return {.what = "'" + std::string(text) + "' is not a mesh", .where = "--mesh", .remedy = "such as pp=4,dp=4"};
}

}  // namespace

Result<Mesh> Mesh::parse(std::string_view text) {
  Mesh mesh;
  std::uint64_t ranks = 1;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos) return no_mesh(text);
    Axis axis{.name = std::string(part.substr(0, equals))};
    const std::string_view number = part.substr(equals + 1);
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), axis.size);
    if (problem != std::errc{} || end != number.data() + number.size() || axis.size == 0) return no_mesh(text);
    if (std::ranges::find(mesh.axes_, axis.name, &Axis::name) != mesh.axes_.end()) return no_mesh(text);
    ranks *= axis.size;
    if (ranks > largest_mesh) return no_mesh(text);
    mesh.axes_.push_back(std::move(axis));
    if (comma == std::string_view::npos) return mesh;
    rest.remove_prefix(comma + 1);
  }
}

std::uint32_t Mesh::size() const {
  std::uint32_t size = 1;
  for (const Axis& axis : axes_) size *= axis.size;
  return size;
}

std::vector<Coordinate> Mesh::coordinates(std::uint32_t rank) const {
  std::vector<Coordinate> at(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0; rank /= axes_[i].size)
    at[i] = {.axis = axes_[i].name, .at = rank % axes_[i].size};
  return at;
}

std::optional<std::uint32_t> Mesh::rank_at(std::span<const Coordinate> coordinates) const {
  std::uint32_t rank = 0;
  for (const Axis& axis : axes_) {
    const auto found = std::ranges::find(coordinates, axis.name, &Coordinate::axis);
    if (found == coordinates.end() || found->at >= axis.size) return std::nullopt;
    rank = rank * axis.size + found->at;
  }
  return rank;
}

std::vector<Coordinate> coordinates_in(std::string_view path) {
  std::vector<Coordinate> found;
  for (std::size_t i = 0; i < path.size();) {
    if (!is_letter(path[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < path.size() && is_letter(path[end])) ++end;
    std::string word(path.substr(i, end - i));
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    i = end;
    const bool known = std::ranges::find(known_axes, word) != known_axes.end();
    if (known && end < path.size() && (path[end] == '_' || path[end] == '-' || path[end] == '=')) ++end;
    std::uint32_t number = 0;
    if (!known || end >= path.size() || !is_digit(path[end])) continue;
    std::from_chars(path.data() + end, path.data() + path.size(), number);
    // The innermost directory, or the file, takes precedence.
    const auto same = std::ranges::find(found, word, &Coordinate::axis);
    if (same != found.end())
      same->at = number;
    else
      found.push_back({.axis = std::move(word), .at = number});
  }
  return found;
}

}  // namespace memreel
