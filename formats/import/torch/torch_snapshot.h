// The format "torch.snapshot": PyTorch memory snapshots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

/// True for pickles and for JSON: their contents only show when they are read.
bool looks_like_snapshot(std::span<const std::byte> beginning);

/// Converts the output of torch.cuda.memory._dump_snapshot (a pickle), the viewer's JSON variant of it, or a plain list
/// of segments in either form.
Result<void> import_snapshot(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options);

/// One snapshot of a series.
struct Instant {
  OpenedFile file;
  std::string name;
  std::int64_t time_us = 0;  // since the Unix epoch; not before the previous instant's
};

/// Converts snapshots without traces, in order of time, into one trace (snapshot_series.h). Errors: one of them has a
/// history.
Result<void> import_series(std::vector<Instant> instants, Header header, std::unique_ptr<ByteSink> sink,
                           const WriterOptions& options);

}  // namespace memreel::torch
