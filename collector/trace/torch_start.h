// SPDX-License-Identifier: Apache-2.0
// What PyTorch's allocator held when the recording of a running program began.
//
// Its own snapshot comes some time after the recording began, and the initial state of a heap precedes its events. So
// what its trace reports waits for the snapshot. What came before the snapshot is in it and is dropped; the rest
// follows it. If the snapshot is late, or not exact, nothing is dropped, and only the blocks in it that were not seen
// to begin or end are added, without saying how the segments were divided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collector/recorder/record.h"
#include "formats/model/initial_heap.h"

namespace memreel::agent {

/// Memory: 64 bytes for each waiting record, at most 8 MiB, and for each block of the snapshot.
class TorchStart {
 public:
  struct Segment {
    Record record;               // snapshot_segment
    std::vector<Record> blocks;  // snapshot_block, from its front
  };

  /// `asked`: there will be an end() of a snapshot; else nothing waits.
  explicit TorchStart(bool asked) : asked_(asked) {}

  // RecordKind::snapshot_begin to snapshot_end, in their order.

  void attempt() { segments_.clear(); }
  void taken() { taken_ = waiting_.size(); }
  void add(const Record& record);

  /// Whether the snapshot is exact and complete, and nothing is written yet: drops what is in it.
  bool precedes_all(bool exact);
  /// No longer asked for.
  std::vector<Segment> end();

  // Other records of the allocator's trace.

  /// False if it need not wait; then take_waiting() comes first.
  bool waits(const Record& record);
  /// In their order; empties it.
  std::vector<Record> take_waiting() { return std::exchange(waiting_, {}); }
  /// Whether something at `address` was reported since the snapshot was asked for.
  bool was_seen(std::uint64_t address) const { return seen_.contains(address); }

 private:
  bool asked_;
  bool late_ = false;                  // records no longer wait
  std::optional<std::int64_t> began_;  // the time of the first record, in ns
  std::vector<Record> waiting_;
  std::size_t taken_ = 0;  // so many of them precede the snapshot
  std::unordered_set<std::uint64_t> seen_;
  std::vector<Segment> segments_;
};

/// The initial state of the heap whose segments these are: its origins are `origins`.
InitialHeap initial_heap(HeapId heap, std::span<const TorchStart::Segment> segments, std::span<const OriginId> origins);

}  // namespace memreel::agent
