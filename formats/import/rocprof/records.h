// Memory records, from any of the file formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/total_bytes.h"
#include "formats/writer/trace_writer.h"

namespace memreel::rocprof {

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
  Result<void> write(const Header& header, std::unique_ptr<ByteSink> sink, const WriterOptions& options);

 private:
  std::string where_;
  Bytes limit_;
  std::vector<Record> records_;
  TotalBytes total_;
  std::uint64_t skipped_ = 0;  // records with missing fields, or of another kind
};

}  // namespace memreel::rocprof
