// The number of rows in each table of a trace.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/model/tables.h"

namespace memreel::wire {

/// The tables in the order of the RowCounts message's fields, in which rows refer only to earlier tables, or to earlier
/// rows of their own.
enum class Table : std::uint8_t {
  strings,
  modules,
  frames,
  stacks,
  heaps,
  pools,
  streams,
  threads,
  origins,
  marks,
  settings,
};
inline constexpr std::size_t table_count = 11;

/// Row 0 of each table is not counted, so a count is also the largest ID in use.
struct RowCounts {
  std::array<std::uint32_t, table_count> count{};

  std::uint32_t& operator[](Table table) { return count[static_cast<std::size_t>(table)]; }
  std::uint32_t operator[](Table table) const { return count[static_cast<std::size_t>(table)]; }
  friend bool operator==(const RowCounts&, const RowCounts&) = default;
};

RowCounts row_counts(const Tables& tables);

/// A RowCounts message.
std::string encode(const RowCounts& counts);
/// Throws protozero::exception if `message` is malformed.
RowCounts decode_row_counts(std::string_view message);

}  // namespace memreel::wire
