// Consecutive snapshots without traces (include_traces=False, or lists of segments), as one history.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "formats/import/torch/snapshot.h"
#include "formats/model/result.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// The differences between two instants become entries of the second, all at its time: frees, segment releases, segment
/// allocations, allocations. An allocation with the same size, stack and address counts as the same one. The first
/// instant's contents are entries too, and each instant begins with a mark that names its snapshot.
class SnapshotSeries {
 public:
  /// `writer` has the tables that the snapshots point into.
  explicit SnapshotSeries(TraceWriter& writer) : writer_(writer) { whole_.is_series = true; }

  /// Adds the next instant. `time_us`: not before that of earlier instants. Error: the snapshot has a history of its
  /// own.
  Result<void> add(const Snapshot& snapshot, const std::string& name, std::int64_t time_us);

  /// The combined history, for write_trace(). Called once.
  Snapshot finish() && { return std::move(whole_); }

 private:
  struct Held {
    std::map<Address, Segment> segments;
    std::map<Address, std::pair<Block, PoolStreamId>> blocks;
  };

  /// With the combined pools and streams.
  Held held_by(const DeviceHistory& history, const PoolStreams& pool_streams);
  void add_changes(DeviceHistory& history, const Held& before, const Held& now, std::int64_t time_us);

  TraceWriter& writer_;
  Snapshot whole_;
  std::map<std::int32_t, Held> devices_;  // at the previous instant
  Held host_;
};

}  // namespace memreel::torch
