// The format "nsys.sqlite": an Nsight Systems recording, exported with `nsys export --type sqlite`.
//
// Source: the SQLite schema of the Nsight Systems User Guide, "Exporting and Querying Data" (2026.4, schema 3.28).
// Recorded with `nsys profile --trace=cuda,nvtx --cuda-memory-usage=true --cudabacktrace=memory:0`; a file without the
// table of memory events is refused, and the error names the missing option.
//
// CUDA_GPU_MEMORY_USAGE_EVENTS has every allocation and free that the driver served. Each device becomes a heap
// "cuda.driver", host memory "cuda.host" (pageable and pinned); frees complete at once. Managed memory and
// stream-ordered pools (cudaMallocAsync) are pools of the heap. Of several processes, the one with the most events is
// read, and other processes' events count as unknown actions. Stacks are those of the API calls: same process, same
// correlation ID, and the event within the call. NVTX ranges and marks become marks. Rows are unordered and are sorted.
//
// Not in the file: frameworks' use of the memory, and failed calls.
#pragma once

#include <memory>

#include "formats/import/sqlite/database.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::nsys {

/// Memory: rows about memory, ranges, and the stacks they refer to; at most `limit`.
Result<void> import_database(const sqlite::Database& database, Bytes limit, Header header,
                             std::unique_ptr<ByteSink> sink, const WriterOptions& options);

}  // namespace memreel::nsys
