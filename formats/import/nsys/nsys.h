// SPDX-License-Identifier: Apache-2.0
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

#include <map>
#include <unordered_map>

#include "formats/import/sqlite/database.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel::nsys {

// The memory data in an Nsight Systems database, in the importer's own terms.

/// ENUM_CUDA_MEM_KIND.
enum class MemoryKind : std::uint8_t {
  pageable,
  pinned,
  device,
  array,
  managed,
  device_static,
  managed_static,
  unknown
};

struct MemoryRow {
  std::int64_t time_ns = 0;
  std::uint64_t process = 0;
  std::int32_t device = 0;
  bool is_free = false;
  MemoryKind kind = MemoryKind::unknown;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pool = 0;  // address of the stream-ordered pool; 0: none
  std::int64_t correlation = 0;
  std::int64_t call_chain = -1;  // of the API call; -1: none
  std::uint64_t tid = 0;         // of the API call; 0: unknown
};

struct FrameRow {
  std::int64_t depth = 0;                 // 0: innermost
  std::int64_t symbol = -1, module = -1;  // in `strings`
};

struct RangeRow {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = -1;  // -1: an instant
  std::uint64_t tid = 0;
  std::string text;
  std::int64_t text_id = -1;  // in `strings`, if `text` is empty
};

struct Tables {
  std::vector<MemoryRow> memory;  // by time, of one process
  std::map<std::int64_t, std::vector<FrameRow>> chains;
  std::unordered_map<std::int64_t, std::string> strings;  // only those referred to
  std::vector<RangeRow> ranges;                           // of the same process
  std::uint64_t process = 0;
  std::uint64_t others = 0;      // rows of other processes
  std::uint64_t incomplete = 0;  // rows with missing fields
};

/// Errors: there is no table of memory events, or the file is damaged or exceeds `limit`.
Result<Tables> read_tables(const sqlite::Database& database, Bytes limit);

/// Memory: rows about memory, ranges, and the stacks they refer to; at most `limit`.
Result<void> import_database(const sqlite::Database& database, Bytes limit, Header header, const BeginOutput& begin);

}  // namespace memreel::nsys
