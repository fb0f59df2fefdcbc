// Snapshots without traces (include_traces=False, or lists of segments), taken one after the other, as one history.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "formats/import/torch/snapshot.h"
#include "formats/model/result.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// What came and what went between two instants becomes the entries of the second, all at its time: frees, segments
/// that were given back, segments that were got, allocations. An allocation of the same size and stack at the same
/// address is taken to be the same one. The first instant's are entries as well, and each begins with a mark that names
/// its snapshot.
class SnapshotSeries {
 public:
  /// `writer` has the tables that the snapshots point into.
  explicit SnapshotSeries(TraceWriter& writer) : writer_(writer) { whole_.is_series = true; }

  /// The next instant. `time_us`: not before those of the instants so far. Error: the snapshot has a history itself.
  Result<void> add(const Snapshot& snapshot, const std::string& name, std::int64_t time_us);

  /// The history of all, for write_trace(). Called once.
  Snapshot finish() && { return std::move(whole_); }

 private:
  struct Held {
    std::map<Address, Segment> segments;
    std::map<Address, std::pair<Block, PoolStreamId>> blocks;
  };

  /// With the pools and streams of the whole.
  Held held_by(const DeviceHistory& history, const PoolStreams& pool_streams);
  void add_changes(DeviceHistory& history, const Held& before, const Held& now, std::int64_t time_us);

  TraceWriter& writer_;
  Snapshot whole_;
  std::map<std::int32_t, Held> devices_;  // at the instant before
  Held host_;
};

}  // namespace memreel::torch
