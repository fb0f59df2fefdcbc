// Reads the lists `segments` and `host_segments` of a snapshot document: the reserved segments when the snapshot was
// taken, and their blocks.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/import/torch/snapshot.h"
#include "formats/import/torch/table_reader.h"
#include "formats/import/torch/value_reader.h"

namespace memreel::torch {

class SegmentReader {
 public:
  SegmentReader(ValueReader& values, TableReader& tables, Snapshot& snapshot)
      : values_(values), tables_(tables), snapshot_(snapshot) {}

  /// Adds them to their devices' histories. `list`: its name in the document. Returns false after a failure, which is
  /// then in `values`.
  bool read(Value segments, std::string_view list = "segments");

 private:
  bool read_segment(Value dict);
  bool read_block(Value dict, Segment& segment, std::uint64_t& address);
  bool read_block_history(Value history, Block& block);

  ValueReader& values_;
  TableReader& tables_;
  Snapshot& snapshot_;
};

}  // namespace memreel::torch
