// SPDX-License-Identifier: Apache-2.0
// The answer about a job as lines to draw: the rank that decides, those that stand out, the others by class.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/model/quantity.h"

namespace memreel {
struct Fleet;
}

namespace memreel::viewer {

/// A rank, or several that are alike.
struct RankLine {
  std::size_t file = 0;         // an index into Ranks::files()
  std::vector<RankLine> alike;  // the other ranks of the line, none as heavy as this one; by rank
  std::string name;             // "rank 3", "ranks 8-15"
  std::string note;             // why it stands out, or what is not known of it; may be empty
  bool decides = false, failed = false, near = false, outlier = false;
  bool at_least = false;  // known in part: its peak is a lower bound
  bool judged = false;    // false: there are no figures, or another recording of the rank is judged
  Bytes peak_reserved;
  std::optional<Bytes> capacity;  // of its device
  Nanoseconds begin{}, end{};     // of the recording, on the job's clock if there is one
  std::optional<Nanoseconds> failed_at;

  std::size_t count() const { return 1 + alike.size(); }
};

struct JobOverview {
  std::string headline, decides, fails;  // sentences, as `memreel fleet` says them; the latter two may be empty
  std::string clock;                     // what the lines' common axis is, or why there is none
  bool one_clock = false;
  Nanoseconds begin{}, end{};          // of that axis
  Bytes highest;                       // peak of its ranks
  bool failed = false;                 // a rank ran out of memory
  bool misses_ranks = false;           // as the headline says
  std::vector<RankLine> lines;         // what decides, failed ranks, outliers, those known in part, the others
  std::optional<std::size_t> decider;  // index into Ranks::files()
};

/// What is known of a folder, once every recording is read.
struct FolderOverview {
  std::string problem;             // why there is no answer; empty: there is one
  std::vector<JobOverview> jobs;   // largest first
  std::vector<std::string> names;  // of each file: "rank 3"
};

/// `files`: absolute, as in the fleets' rows. Jobs of more ranks than `most_lines` show ranks of a class that don't
/// stand out as one line.
FolderOverview overview_of(std::span<const Fleet> fleets, std::span<const std::filesystem::path> files,
                           std::size_t most_lines = 24);

}  // namespace memreel::viewer
