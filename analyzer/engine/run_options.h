// How one policy is replayed on one heap.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"

namespace memreel {

class Backing;
struct Extent;

/// Sees a run row by row, which makes it slower.
class RowWatcher {
 public:
  RowWatcher() = default;
  RowWatcher(const RowWatcher&) = delete;
  RowWatcher& operator=(const RowWatcher&) = delete;
  virtual ~RowWatcher() = default;

  /// `row` has been done; `extent` is null unless it is a request that got memory. False: the run is to stop.
  virtual bool done(std::size_t row, const Extent* extent) = 0;
};

/// The rows of heaps that are not all in memory. Threads may share one.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  virtual std::size_t row_count(HeapId heap) const = 0;
  /// Calls `take` with the columns of one stretch of rows after another, until it returns false.
  virtual void for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const = 0;
};

struct RunOptions {
  DeviceModel device;
  std::size_t series_points = 0;
  /// Stop at the first failure. A request that failed when it was recorded may fail again.
  bool stop_at_failure = false;
  /// Stop once more than this is reserved. The policy doesn't know of it: unlike a capacity it changes no decision.
  Bytes give_up_above{std::numeric_limits<std::uint64_t>::max()};
  /// Before a request fails the program calls empty_cache and tries again.
  bool empty_cache_on_failure = false;
  /// Also find ReplayResult::free_memory and address_stability.
  bool placement_metrics = false;
  /// Where the rows come from when the heap's own columns are empty.
  const RowSource* rows = nullptr;
  Backing* backing = nullptr;     // real memory for what the policy reserves
  RowWatcher* watcher = nullptr;  // only of policies that place
};

}  // namespace memreel
