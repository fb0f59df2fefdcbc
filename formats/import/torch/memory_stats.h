// The format "torch.stats": what torch.cuda.memory_summary() prints, or torch.cuda.memory_stats() as JSON or as Python
// prints it, also in the middle of a log.
//
// Source: torch/cuda/memory.py. One instant: sums, no blocks. The trace has one allocation of what is allocated, and
// first one more, freed again, up to the peak; segments likewise. So every total is the table's and nothing else is.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::torch {

bool looks_like_stats(std::span<const std::byte> beginning);

Result<void> import_stats(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                          const WriterOptions& options);

}  // namespace memreel::torch
