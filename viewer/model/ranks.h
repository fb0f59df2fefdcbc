// SPDX-License-Identifier: Apache-2.0
// The recordings of several processes: what the list of ranks and their small multiples need of each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "formats/model/quantity.h"
#include "formats/model/result.h"

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

/// Reads one file after the other on its own thread.
class Ranks {
 public:
  /// `wake` is called on that thread whenever there is news. `memory_limit`: for each file; 0: a limit based on its
  /// size.
  Ranks(std::vector<std::filesystem::path> files, std::function<void()> wake, Bytes memory_limit = {});

  const std::vector<std::filesystem::path>& files() const { return files_; }
  /// Null until it is read.
  std::shared_ptr<const RankSeries> series(std::size_t file) const;
  /// "rank 3", or the file's name until the rank is known.
  std::string name(std::size_t file) const;
  std::size_t read() const { return read_.load(std::memory_order_acquire); }
  bool complete() const { return read() == files_.size(); }
  /// The highest peak among the ranks read so far.
  Bytes highest() const;

 private:
  std::vector<std::filesystem::path> files_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const RankSeries>> all_series_;
  std::atomic<std::size_t> read_ = 0;
  std::jthread thread_;  // last member: it uses the others
};

}  // namespace memreel::viewer
