// Which process of a job a recording is of.
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

/// A job with more ranks is not believed.
inline constexpr std::uint32_t most_ranks = 1U << 20U;

struct Identity {
  std::string job;  // of the scheduler; empty: not known
  std::optional<std::uint32_t> rank, world_size, local_rank;
  std::string host;
  std::uint64_t process = 0;
  std::uint32_t attempt = 0;            // of the launcher: how often the job was restarted
  std::vector<Coordinate> coordinates;  // on the mesh, when it is known

  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Where a rank's number is looked for when the recording does not say it.
class RankNames {
 public:
  /// Finds "rank3.reel", "rank_03.pickle.xz", "rank-3/snapshot.pickle", "3.reel", "snapshot_3.pickle".
  RankNames() = default;

  static constexpr std::size_t longest_pattern = 256;  // bytes

  /// A pattern of the user's, in RE2's syntax, upper and lower case alike: its first group is the number. RE2 takes
  /// time in proportion to the name, whatever the pattern. Errors: `text` is too long, not valid, or has no group.
  static Result<RankNames> pattern(const std::string& text);

  /// The number in the names of the file and its directories; the file's own name comes first.
  std::optional<std::uint32_t> rank_of(const std::filesystem::path& file) const;

  /// Whether a user said where the number is, who knows better than a recording does.
  bool are_own() const { return own_ != nullptr; }

 private:
  std::shared_ptr<const re2::RE2> own_;
};

/// What the recording says, and what its name says of the rest: recordings by memreel hold what their launcher said.
Identity identify(const Header& header, const std::filesystem::path& file, const RankNames& names);

}  // namespace memreel
