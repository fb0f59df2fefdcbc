// Recordings of ROCm's profiler: `rocprofv3 --memory-allocation-trace -f csv json rocpd -- PROGRAM`.
//
// - "rocprof.csv": NAME_memory_allocation_trace.csv (source/lib/output/generateCSV.cpp of ROCm/rocprofiler-sdk);
// - "rocprof.json": NAME_results.json, rocprofiler-sdk-tool[].buffer_records.memory_allocation[];
// - "rocpd": NAME_results.db, an SQLite database; read through its view memory_allocations, whose columns are the same
//   in the schemas 3.0 and 4.1.
//
// Allocations are HSA's: hipMalloc, HIP's pools and hipMemCreate all end there; frameworks' suballocations are not
// included. Each agent becomes a heap "hsa" at the driver level; agents known to be CPUs (JSON, rocpd) are host memory.
// In CSV the device is the agent's number, which counts CPUs too. An allocation starts when its call ends, a free when
// its call begins, and frees complete at once. Frees have neither agent nor size and are matched by address. Virtual
// memory and scratch are pools of their heap. A request without an address failed. CSV has no threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/import/sqlite/database.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_writer.h"

namespace memreel::rocprof {

/// Whether the first line names the memory allocation columns.
bool looks_like_csv(std::span<const std::byte> beginning);
/// Whether it is a JSON object that begins with the tool's key.
bool looks_like_json(std::span<const std::byte> beginning);
bool is_rocpd(const sqlite::Database& database);

// Memory of each: 64 bytes per record; at most the limit.

Result<void> import_csv(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink, const WriterOptions& options);
Result<void> import_json(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                         const WriterOptions& options);
Result<void> import_rocpd(const sqlite::Database& database, Bytes limit, Header header, std::unique_ptr<ByteSink> sink,
                          const WriterOptions& options);

}  // namespace memreel::rocprof
