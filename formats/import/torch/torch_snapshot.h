// SPDX-License-Identifier: Apache-2.0
// The format "torch.snapshot": PyTorch memory snapshots.
#pragma once

#include <map>
#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/torch/snapshot.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel::torch {

/// True for pickles and for JSON: their contents only show when they are read.
bool looks_like_snapshot(std::span<const std::byte> beginning);

/// Converts the output of torch.cuda.memory._dump_snapshot (a pickle), the viewer's JSON variant of it, or a plain list
/// of segments in either form.
Result<void> import_snapshot(ByteCursor& bytes, Header header, const BeginOutput& begin);

/// One snapshot of a series.
struct Instant {
  OpenedFile file;
  std::string name;
  std::int64_t time_us = 0;  // since the Unix epoch; not before the previous instant's
};

/// Converts snapshots without traces, in order of time, into one trace (torch_snapshot.h). Errors: one of them has a
/// history.
Result<void> import_series(std::vector<Instant> instants, Header header, const BeginOutput& begin);

// The format "torch.page": the page that PyTorch's `python torch/cuda/_memory_viz.py trace_plot snapshot.pickle -o
// x.html` writes. It contains the snapshot, a pickle in base64 (torch/cuda/_memory_viz.py, _format_viz).
//
// Pages of PyTorch 2.0, and the one of profiler.export_memory_timeline("x.html"), hold pictures instead; they are
// refused.

/// Whether it is an HTML page that has to do with PyTorch's memory.
bool looks_like_viz_page(std::span<const std::byte> beginning);

/// Converts the snapshot in the page.
Result<void> import_viz_page(ByteCursor& bytes, Header header, const BeginOutput& begin);

// Consecutive snapshots without traces (include_traces=False, or lists of segments), as one history.

/// The differences between two instants become entries of the second, all at its time: frees, segment releases, segment
/// allocations, allocations. An allocation with the same size, stack and address counts as the same one. The first
/// instant's contents are entries too, and each instant begins with a mark that names its snapshot.
class SnapshotSeries {
 public:
  /// `writer` has the tables that the snapshots point into.
  explicit SnapshotSeries(ImportOutput& writer) : writer_(writer) { whole_.is_series = true; }

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

  ImportOutput& writer_;
  Snapshot whole_;
  std::map<std::int32_t, Held> devices_;  // at the previous instant
  Held host_;
};

}  // namespace memreel::torch
