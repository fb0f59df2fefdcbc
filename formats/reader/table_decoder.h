// Tables packets into tables.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "formats/model/tables.h"
#include "formats/wire/row_counts.h"
#include "formats/wire/zstd.h"

namespace memreel {

/// What the row numbers in a file mean: in a concatenation, the rows of each trace follow those of the ones before it,
/// and row 0 is common to all.
struct RowSpace {
  wire::RowCounts base;   // rows of the traces before
  wire::RowCounts count;  // rows of this trace so far

  /// The row that `row` of this trace is in the tables. Only when it has(row).
  std::uint32_t operator()(wire::Table table, std::uint64_t row) const {
    return row == 0 ? 0 : static_cast<std::uint32_t>(row) + base[table];
  }
  bool has(wire::Table table, std::uint64_t row) const { return row <= count[table]; }
};

/// The tables of a trace, growing packet by packet.
class TableReader {
 public:
  const Tables& tables() const { return tables_; }
  Tables take() && { return std::move(tables_); }
  const RowSpace& rows() const { return rows_; }
  std::uint64_t missing_rows() const { return missing_rows_; }

  /// The next trace of a concatenation: its row numbers begin again.
  void begin_trace();

  /// Adds the rows of a Tables message. False, with nothing added, when it is damaged.
  bool add(std::string_view message, wire::Decompressor& decompressor);

  /// Fills up with empty rows to what a packet says came before it, where a packet with rows was lost. False when they
  /// are more than a reader should believe in.
  bool fill_up_to(const wire::RowCounts& expected);

 private:
  bool add_rows(std::string_view content);
  void shrink_to(const wire::RowCounts& count);

  Tables tables_;
  RowSpace rows_;
  std::uint64_t missing_rows_ = 0;
  std::uint64_t compressed_size_ = 0, content_size_ = 0;  // of the packets so far
};

}  // namespace memreel
