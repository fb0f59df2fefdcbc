// SPDX-License-Identifier: Apache-2.0
// Identifies which process of a job made a recording, and where on the mesh of ranks it is.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <tuple>

#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/wire/message.h"

namespace memreel {

// The layout of a job's ranks over the kinds of parallelism: "pp=4,dp=4".

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

namespace re2 {
class RE2;
}

namespace memreel {

/// Larger jobs are considered implausible.
inline constexpr std::uint32_t most_ranks = 1U << 20U;

struct Identity {
  std::string job;  // of the scheduler; empty: unknown
  std::optional<std::uint32_t> rank, world_size, local_rank;
  std::string host;
  std::uint64_t process = 0;
  Nanoseconds start{};                  // when the recording began, since the epoch; 0: unknown
  std::uint32_t attempt = 0;            // of the launcher: number of restarts of the job
  std::string visible_devices;          // CUDA_VISIBLE_DEVICES: a device's number is an index into it
  std::vector<Coordinate> coordinates;  // on the mesh, if known

  friend bool operator==(const Identity&, const Identity&) = default;
};
/// The numbers are those of RankSummary.
template <>
struct wire::MembersOf<Identity> {
  static constexpr std::tuple all{
      member(7, &Identity::job),         member(8, &Identity::rank),   member(9, &Identity::world_size),
      member(10, &Identity::local_rank), member(11, &Identity::host),  member(12, &Identity::process),
      member(13, &Identity::attempt),    member(49, &Identity::start), verbatim(50, &Identity::visible_devices),
      member(14, &Identity::coordinates)};
};

/// A user's pattern for ranks in file names, which takes precedence over what recordings state.
class RankPattern {
 public:
  static constexpr std::size_t longest = 256;  // bytes

  RankPattern() = default;  // none

  /// In RE2 syntax, case-insensitive: its first group is the number. RE2 takes time proportional to the name, whatever
  /// the pattern. Errors: `text` is too long, invalid, or has no group.
  static Result<RankPattern> parse(const std::string& text);

  bool is_given() const { return pattern_ != nullptr; }
  /// By the file's name, else by that of the innermost folder that matches, else by the whole path.
  std::optional<std::uint32_t> rank_of(const std::filesystem::path& file) const;

 private:
  std::shared_ptr<const re2::RE2> pattern_;
};

/// What the recording states: memreel's recordings contain what their launcher set. The pattern's number, if there is
/// one, is the rank. Host and process also come from the names that memreel gives to files.
Identity identify(const Header& header, const std::filesystem::path& file, const RankPattern& pattern);

/// The ranks that a set of names shows. One name can't: its numbers may be dates, hosts, process ids, steps, or the
/// rank of a matrix. A number is a rank if it is called so ("rank3", "r07") and at least half of the ranks below the
/// highest are there, or if it is the only one that differs between names that are otherwise alike, from 0 on without
/// gaps. "rank3.reel", "rank-3/snapshot.pickle" and "memreel-rank3-..." need no other names.
std::vector<std::optional<std::uint32_t>> ranks_in_names(std::span<const std::filesystem::path> files);

/// The name without its numbers: equal for the recordings of one job, if they are in one directory.
std::string name_without_numbers(const std::filesystem::path& file);

}  // namespace memreel
