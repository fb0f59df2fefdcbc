// Identifies which process of a job made a recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/fleet/mesh.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

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
  std::uint32_t attempt = 0;            // of the launcher: number of restarts of the job
  std::vector<Coordinate> coordinates;  // on the mesh, if known

  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Finds the rank in file names if the recording does not state it.
class RankNames {
 public:
  /// Finds "rank3.reel", "rank_03.pickle.xz", "rank-3/snapshot.pickle", "3.reel", "snapshot_3.pickle".
  RankNames() = default;

  static constexpr std::size_t longest_pattern = 256;  // bytes

  /// A user's pattern in RE2 syntax, case-insensitive: its first group is the number. RE2 takes time proportional to
  /// the name, whatever the pattern. Errors: `text` is too long, invalid, or has no group.
  static Result<RankNames> pattern(const std::string& text);

  /// The number in the names of the file and its directories; the file's own name takes precedence.
  std::optional<std::uint32_t> rank_of(const std::filesystem::path& file) const;

  /// Whether the user gave the pattern, which takes precedence over the recording.
  bool are_own() const { return own_ != nullptr; }

 private:
  std::shared_ptr<const re2::RE2> own_;
};

/// What the recording states, and its name for the rest: memreel's recordings contain what their launcher set.
Identity identify(const Header& header, const std::filesystem::path& file, const RankNames& names);

}  // namespace memreel
