// SPDX-License-Identifier: Apache-2.0
// The recordings of several processes: what the list of ranks and their lines need of each, and the answer about all.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "formats/model/quantity.h"
#include "formats/model/result.h"

// The answer about a job as lines to draw: the rank that decides, those that stand out, the others by class.

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

namespace memreel::viewer {

struct RankSeries {
  std::string name;     // "rank 3"; the file's name if the rank is unknown
  std::string problem;  // why it can't be shown; empty: no problem
  Bytes peak_reserved, peak_live;
  std::vector<Bytes> reserved, allocated;  // maxima over equal intervals of its time
};

/// The recordings among files and directories. Errors: a path does not exist, or there are no recordings.
Result<std::vector<std::filesystem::path>> recordings_in(std::span<const std::filesystem::path> named);

/// Whether the file begins like a trace, or like what can be imported. Reads its beginning only; not for pipes.
bool may_be_opened(const std::filesystem::path& file);

/// Reads the files on threads of its own, several at a time.
class Ranks {
 public:
  /// `wake` is called on those threads whenever there is news. `memory_limit`: for each file; 0: a limit based on its
  /// size.
  Ranks(std::vector<std::filesystem::path> files, std::function<void()> wake, Bytes memory_limit = {});

  const std::vector<std::filesystem::path>& files() const { return files_; }
  /// Null until it is read.
  std::shared_ptr<const RankSeries> series(std::size_t file) const;
  /// "rank 3", or the file's name until the rank is known.
  std::string name(std::size_t file) const;
  std::size_t read() const { return read_.load(std::memory_order_acquire); }
  /// Whether everything is read and judged.
  bool complete() const { return overview() != nullptr; }
  /// The highest peak among the ranks read so far.
  Bytes highest() const;
  /// The answer about the job, or jobs; null until every file is read.
  std::shared_ptr<const FolderOverview> overview() const;

 private:
  struct Unjudged;  // what is kept of each file for the answer
  void read_files(const std::stop_token& stop, const std::function<void()>& wake, Bytes memory_limit);
  void judge();

  std::vector<std::filesystem::path> files_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const RankSeries>> all_series_;
  std::shared_ptr<Unjudged> unjudged_;
  std::shared_ptr<const FolderOverview> overview_;
  std::atomic<std::size_t> next_ = 0, read_ = 0;
  std::vector<std::jthread> threads_;  // last member: they use the others
};

}  // namespace memreel::viewer
