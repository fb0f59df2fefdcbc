// How the ranks of a job are laid out over the kinds of parallelism: "pp=4,dp=4".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace memreel {

/// A rank's place on one axis of the mesh.
struct Coordinate {
  std::string axis;  // "pp"
  std::uint32_t at = 0;

  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

/// Axes from the one that changes slowest with the rank to the one that changes fastest, as torch's init_device_mesh
/// has them.
class Mesh {
 public:
  struct Axis {
    std::string name;
    std::uint32_t size = 1;
  };

  /// "pp=4,dp=4". Errors: anything else, an axis twice, more than 2^20 ranks.
  static Result<Mesh> parse(std::string_view text);

  std::uint32_t size() const;
  /// Errors are the caller's: `rank` is below size().
  std::vector<Coordinate> coordinates(std::uint32_t rank) const;
  /// The reverse, when every axis is there and within its size.
  std::optional<std::uint32_t> rank_at(std::span<const Coordinate> coordinates) const;

 private:
  std::vector<Axis> axes_;
};

/// What the names of files and directories say: "pp0_dp1/rank.reel", "tp3.reel". Empty when they say nothing.
std::vector<Coordinate> coordinates_in(std::string_view path);

}  // namespace memreel
