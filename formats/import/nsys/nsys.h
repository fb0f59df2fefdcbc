// The format "nsys.sqlite": what Nsight Systems recorded, exported with `nsys export --type sqlite`.
//
// Source: the SQLite schema of the Nsight Systems User Guide, "Exporting and Querying Data" (2026.4, schema 3.28).
// Recorded with `nsys profile --trace=cuda,nvtx --cuda-memory-usage=true --cudabacktrace=memory:0`; a file without the
// table of memory events is refused with the option that was missing.
//
// CUDA_GPU_MEMORY_USAGE_EVENTS has every allocation and free that the driver served. Each device becomes a heap
// "cuda.driver", host memory "cuda.host" (pageable and pinned); a free is its own completion. Managed memory and
// stream-ordered pools (cudaMallocAsync) are pools of the heap. Of several processes the one with most events is read,
// and the others' events are counted as unknown actions. Stacks are those of the API's calls: same process, same
// correlation id, and the event within the call. NVTX ranges and marks become marks. Rows are not in order and are
// sorted.
//
// Not in the file: what frameworks make of the memory, and calls that failed.
#pragma once

#include <memory>

#include "formats/import/sqlite/database.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::nsys {

/// Memory: rows about memory, ranges, and the stacks that they name; no more than `limit`.
Result<void> import_database(const sqlite::Database& database, Bytes limit, Header header,
                             std::unique_ptr<ByteSink> sink, const WriterOptions& options);

}  // namespace memreel::nsys
