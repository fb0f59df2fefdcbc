// SPDX-License-Identifier: Apache-2.0
// Field numbers of formats/proto/memreel/trace.proto, for protozero's typed readers and writers. Most are in the
// lists of members (formats/wire/rows.h, packets.h).
#pragma once

#include <protozero/types.hpp>

#include <array>

#include "formats/model/tables.h"

namespace memreel::wire {

enum class PacketField : protozero::pbf_tag_type {
  header = 3,
  tables = 4,
  events = 5,
  keyframe = 6,
  losses = 7,
  footer = 8,
  folded = 9,
  initial_heap = 10,
  python_holders = 11,
};

enum class HeaderField : protozero::pbf_tag_type { version = 1 };  // of the format: no member of Header
inline constexpr std::uint32_t format_version = 1;

enum class TablesField : protozero::pbf_tag_type { rows_zstd = 1, rows_size = 2, rows_before = 3 };

enum class RowsField : protozero::pbf_tag_type {
  strings = 1,
  frame_function = 2,
  frame_file = 3,
  frame_line = 4,
  frame_module = 5,
  frame_module_offset = 6,
  stack_frame = 7,
  stack_caller_back = 8,
  modules = 9,
  heaps = 10,
  pools = 11,
  stream_handles = 12,
  threads = 13,
  marks = 14,
  settings = 15,
  origin_heap = 16,
  origin_pool = 17,
  origin_stream = 18,
  origin_thread = 19,
  frame_instance = 20,
  origin_metadata = 21,
};

enum class BlockField : protozero::pbf_tag_type {
  count = 1,
  first_event = 2,
  first_allocation = 3,
  first_time_ns = 4,
  last_time_ns = 5,
  state = 6,
  rows_before = 7,
  columns_zstd = 8,
  columns_size = 9,
  allocation_count = 10,
};
enum class HeapStateField : protozero::pbf_tag_type { heap = 1, live_bytes = 2, reserved_bytes = 3 };

enum class ColumnField : protozero::pbf_tag_type {
  kind = 1,
  time_delta = 2,
  time_unit_ns = 3,
  origin = 4,
  stack = 5,
  requested_back = 6,
  completed_back = 7,
  address = 8,
  address_base = 9,
  address_shift = 10,
  size = 11,
  value = 12,
  unmatched_address = 13,
  unmatched_size = 14,
};

enum class KeyframeField : protozero::pbf_tag_type { event = 1, time_ns = 2, rows_zstd = 3, rows_size = 4 };
enum class KeyframeRowsField : protozero::pbf_tag_type {
  allocation_delta = 1,
  address = 2,
  size = 3,
  origin = 4,
  stack = 5,
  pending = 6,
  segment_address = 7,
  segment_size = 8,
  segment_origin = 9,
  segment_mapped = 10,
};

enum class FoldedField : protozero::pbf_tag_type { rows_zstd = 4, rows_size = 5 };
enum class InitialHeapField : protozero::pbf_tag_type { rows_zstd = 2, rows_size = 3 };

enum class FooterField : protozero::pbf_tag_type {
  packet_field = 1,
  packet_size = 2,
  first_event = 3,
  first_time_ns = 4,
  event_count = 5,
  allocation_count = 6,
  footer_size = 15,
};
inline constexpr std::size_t footer_size_width = 4;  // the last bytes of a complete file

// The number of rows in each table of a trace.

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

/// Calls `use(table, rows)` for each table, in that order.
template <class TablesRef, class Use>
void for_each_table(TablesRef& t, Use use) {
  use(Table::strings, t.strings);
  use(Table::modules, t.modules);
  use(Table::frames, t.frames);
  use(Table::stacks, t.stacks);
  use(Table::heaps, t.heaps);
  use(Table::pools, t.pools);
  use(Table::streams, t.streams);
  use(Table::threads, t.threads);
  use(Table::origins, t.origins);
  use(Table::marks, t.marks);
  use(Table::settings, t.settings);
}

/// Row 0 of each table is not counted, so a count is also the largest ID in use.
struct RowCounts {
  std::array<std::uint32_t, table_count> count{};

  std::uint32_t& operator[](Table table) { return count[static_cast<std::size_t>(table)]; }
  std::uint32_t operator[](Table table) const { return count[static_cast<std::size_t>(table)]; }
  friend bool operator==(const RowCounts&, const RowCounts&) = default;
};

RowCounts row_counts(const Tables& tables);

// As a RowCounts message, in which the field of a table is its place, from 1.

std::string encode(const RowCounts& counts);
/// Throws protozero::exception if `message` is malformed.
void decode(std::string_view message, RowCounts& counts);

}  // namespace memreel::wire
