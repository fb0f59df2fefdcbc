// SPDX-License-Identifier: Apache-2.0
// The layout of a job's ranks over the kinds of parallelism: "pp=4,dp=4".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "formats/model/result.h"
#include "formats/wire/members.h"

namespace memreel {

/// A rank's position on one axis of the mesh.
struct Coordinate {
  std::string axis;  // "pp"
  std::uint32_t at = 0;

  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};
template <>
struct wire::MembersOf<Coordinate> {
  static constexpr std::tuple all{member(1, &Coordinate::axis), member(2, &Coordinate::at)};
};

/// Axes from slowest- to fastest-changing with the rank, as in torch's init_device_mesh.
class Mesh {
 public:
  struct Axis {
    std::string name;
    std::uint32_t size = 1;
  };

  /// "pp=4,dp=4". Errors: any other format, a repeated axis, more than 2^20 ranks.
  static Result<Mesh> parse(std::string_view text);

  std::uint32_t size() const;
  /// `rank` must be below size().
  std::vector<Coordinate> coordinates(std::uint32_t rank) const;
  /// The inverse, if every axis is present and within its size.
  std::optional<std::uint32_t> rank_at(std::span<const Coordinate> coordinates) const;

 private:
  std::vector<Axis> axes_;
};

/// The coordinates in the names of files and directories: "pp0_dp1/rank.reel", "tp3.reel". Empty if there are none.
std::vector<Coordinate> coordinates_in(std::string_view path);

}  // namespace memreel
