// SPDX-License-Identifier: Apache-2.0
// Decodes Tables packets into tables.
#pragma once

#include <limits>

#include "formats/model/tables.h"
#include "formats/model/units.h"
#include "formats/model/value_check.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {

/// Maps the row numbers in a file: in a concatenation, the rows of each trace follow those of the previous ones, and
/// row 0 is common to all.
struct RowSpace {
  wire::RowCounts base;   // rows of earlier traces
  wire::RowCounts count;  // rows of this trace so far

  /// The row in the tables for `row` of this trace. Only if has(row).
  std::uint32_t operator()(wire::Table table, std::uint64_t row) const {
    return row == 0 ? 0 : static_cast<std::uint32_t>(row) + base[table];
  }
  bool has(wire::Table table, std::uint64_t row) const { return row <= count[table]; }
};

/// The tables of a trace, growing packet by packet.
class TableReader {
 public:
  TableReader() = default;
  /// Accepts no more rows than fit in that much memory.
  explicit TableReader(Bytes memory_limit) : memory_limit_(memory_limit) {}

  const Tables& tables() const { return tables_; }
  Tables take() && { return std::move(tables_); }
  const RowSpace& rows() const { return rows_; }
  std::uint64_t missing_rows() const { return missing_rows_; }
  /// Approximate memory of the rows so far.
  Bytes memory() const { return memory_; }
  /// True once add() refused rows for lack of memory.
  bool over_limit() const { return memory_ > memory_limit_; }
  /// Stacks of more than max_stack_depth frames, cut to their inner frames.
  std::uint64_t cut_stacks() const { return depths_.cut(); }

  void set_memory_limit(Bytes limit) { memory_limit_ = limit; }

  /// The next trace of a concatenation begins: its row numbers restart.
  void begin_trace();

  /// Adds the rows of a Tables message. False, with nothing added, if it is damaged.
  bool add(std::string_view message, wire::Decompressor& decompressor);

  /// Adds rows up to the number that a packet says came before it, when a packet with rows was lost: empty ones, with
  /// "(lost)" for names. False if that is implausibly many.
  bool fill_up_to(const wire::RowCounts& expected);

 private:
  bool add_rows(std::string_view content);
  bool too_many_heaps(std::uint32_t count) const;
  void shrink_to(const wire::RowCounts& count);

  Tables tables_;
  RowSpace rows_;
  Bytes memory_, memory_limit_{std::numeric_limits<std::uint64_t>::max()};
  StackDepths depths_;
  std::uint64_t missing_rows_ = 0;
  std::uint64_t compressed_size_ = 0, content_size_ = 0;  // of the packets so far
};

}  // namespace memreel
