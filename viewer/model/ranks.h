// The recordings of several processes: what a list of ranks and their series side by side need of each.
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
  std::string name;     // "rank 3"; the file's own where nothing says which rank it is
  std::string problem;  // why it can't be shown; empty: it can
  Bytes peak_reserved, peak_live;
  std::vector<Bytes> reserved, allocated;  // the most in each of equal stretches of its time
};

/// The recordings among files and directories. Errors: something does not exist, or there are none.
Result<std::vector<std::filesystem::path>> recordings_in(std::span<const std::filesystem::path> named);

/// Reads one file after the other on a thread of its own.
class Ranks {
 public:
  /// `wake` is called, by that thread, whenever there is something new. `memory_limit`: what each file may ask for; 0:
  /// as its size suggests.
  Ranks(std::vector<std::filesystem::path> files, std::function<void()> wake, Bytes memory_limit = {});

  const std::vector<std::filesystem::path>& files() const { return files_; }
  /// Null: not read yet.
  std::shared_ptr<const RankSeries> series(std::size_t file) const;
  /// "rank 3", or the file's name as long as nothing else is known.
  std::string name(std::size_t file) const;
  std::size_t read() const { return read_.load(std::memory_order_acquire); }
  bool complete() const { return read() == files_.size(); }
  /// The highest peak of those that are read.
  Bytes highest() const;

 private:
  std::vector<std::filesystem::path> files_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const RankSeries>> all_series_;
  std::atomic<std::size_t> read_ = 0;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace memreel::viewer
