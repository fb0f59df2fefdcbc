// Turns the repeated parts of a snapshot document into table rows: frames, stacks, names, marks and (pool, stream)
// pairs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "formats/import/torch/snapshot.h"
#include "formats/import/torch/snapshot_keys.h"
#include "formats/import/torch/value_reader.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// A frame dict becomes a FrameId and a frame list a StackId when first seen; every later reference to the same object
/// costs one load.
class TableReader {
 public:
  TableReader(ValueReader& values, TraceWriter& writer, PoolStreams& pool_streams)
      : values_(values), writer_(writer), pool_streams_(pool_streams) {}

  bool read_stack(Value frames, StackId& into);
  bool read_pool_stream(const PoolStream& pool_stream, PoolStreamId& into) {
    into = pool_streams_.id(pool_stream);
    return pool_streams_.count() <= max_pool_streams || values_.fail("too many streams and pools");
  }
  /// `value` cut to 4 KiB, if it is a text: longer names help nobody.
  StringId name(Value value);
  /// The torch.compile region that a compile_context names, as in "Torch-Compiled Region: 0/0"; none outside a region.
  StringId compiled_region(Value context);
  MarkId mark(StringId name, SnapshotKey stage);
  /// The mark of a `user_defined` entry, which is named by its only frame.
  MarkId mark_of(StackId stack);
  /// Stacks that were too deep and lack their outermost frames.
  std::uint64_t cut_stacks() const { return cut_stacks_; }

 private:
  bool read_frame(Value dict, FrameId& into);

  ValueReader& values_;
  TraceWriter& writer_;
  PoolStreams& pool_streams_;
  std::uint64_t cut_stacks_ = 0;
  std::vector<FrameId> frames_;                            // in the stack being read
  std::vector<std::pair<FrameId, StackId>> latest_stack_;  // outermost first
};

}  // namespace memreel::torch
