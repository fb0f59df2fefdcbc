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

/// Observes a run row by row, which makes it slower.
class RowWatcher {
 public:
  RowWatcher() = default;
  RowWatcher(const RowWatcher&) = delete;
  RowWatcher& operator=(const RowWatcher&) = delete;
  virtual ~RowWatcher() = default;

  /// Row `row` is done; `extent` is null unless it is a request that got memory. Returns false to stop the run.
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
  /// Calls `take` with the columns of one run of rows after another, until it returns false.
  virtual void for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const = 0;
};

struct RunOptions {
  DeviceModel device;
  std::size_t series_points = 0;
  /// Stop at the first failure. A request that failed in the recording may fail again.
  bool stop_at_failure = false;
  /// Stop once more than this is reserved. The policy is not told: unlike a capacity, this changes no decision.
  Bytes give_up_above{std::numeric_limits<std::uint64_t>::max()};
  /// Before a request fails, the program calls empty_cache and retries.
  bool empty_cache_on_failure = false;
  /// Also compute ReplayResult::free_memory and address_stability.
  bool placement_metrics = false;
  /// Where the rows come from if the heap's own columns are empty.
  const RowSource* rows = nullptr;
  Backing* backing = nullptr;     // real memory behind what the policy reserves
  RowWatcher* watcher = nullptr;  // placing policies only
};

}  // namespace memreel
