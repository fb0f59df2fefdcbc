// The memory data in an Nsight Systems database, in the importer's own terms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/import/sqlite/database.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::nsys {

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

}  // namespace memreel::nsys
