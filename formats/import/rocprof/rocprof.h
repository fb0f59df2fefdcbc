// SPDX-License-Identifier: Apache-2.0
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

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/sqlite/database.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/model/units.h"
#include "formats/writer/trace_output.h"

namespace memreel::rocprof {

// Memory records, from any of the file formats.

enum class Kind : std::uint8_t { real, virtual_memory, scratch };

struct Record {
  std::int64_t time_ns = 0;  // the end of an allocation call, or the start of a free call
  std::uint64_t address = 0, size = 0;
  std::uint64_t thread = 0;  // 0: unknown
  std::int32_t device = 0;   // -1: host memory; of allocations only
  bool is_free = false;
  Kind kind = Kind::real;
};

/// Collects records, checks their numbers, and writes them in order of time.
class Records {
 public:
  Records(std::string where, Bytes limit) : where_(std::move(where)), limit_(limit) {}

  /// Errors: impossible values, or more than the limit.
  Result<void> add(const Record& record);
  void skip() { ++skipped_; }

  /// Errors: there were no records.
  Result<void> write(const Header& header, const BeginOutput& begin);

 private:
  std::string where_;
  Bytes limit_;
  std::vector<Record> records_;
  TotalBytes total_;
  std::uint64_t skipped_ = 0;  // records with missing fields, or of another kind
};

/// Whether the first line names the memory allocation columns.
bool looks_like_csv(std::span<const std::byte> beginning);
/// Whether it is a JSON object that begins with the tool's key.
bool looks_like_json(std::span<const std::byte> beginning);
bool is_rocpd(const sqlite::Database& database);

// Memory of each: 64 bytes per record; at most the limit.

Result<void> import_csv(ByteCursor& bytes, Header header, const BeginOutput& begin);
Result<void> import_json(ByteCursor& bytes, Header header, const BeginOutput& begin);
Result<void> import_rocpd(const sqlite::Database& database, Bytes limit, Header header, const BeginOutput& begin);

}  // namespace memreel::rocprof
