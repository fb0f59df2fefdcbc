// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/table_decoder.h"

#include <algorithm>
#include <array>

#include "formats/model/frame_kind.h"
#include "formats/model/printable.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"
#include "formats/wire/packets.h"
#include "formats/wire/rows.h"

namespace memreel {
namespace {

using wire::MessageReader;
using wire::RowsField;
using wire::Table;

/// Maximum rows in one lost packet, and in all of them together.
constexpr std::uint64_t max_missing_rows = std::uint64_t{1} << 20U;

/// For strings in packets that were damaged.
constexpr std::string_view lost_name = "(lost)";

/// Memory per row, while its vector grows.
Bytes row_memory(Table table) {
  static constexpr std::array<std::size_t, wire::table_count> sizes{
      sizeof(std::string), sizeof(Module), sizeof(Frame),   sizeof(Stack) + sizeof(std::uint16_t),
      sizeof(Heap),        sizeof(Pool),   sizeof(Stream),  sizeof(Thread),
      sizeof(Origin),      sizeof(Mark),   sizeof(Settings)};
  return Bytes{2 * sizes.at(static_cast<std::size_t>(table))};
}

constexpr Table table_of(StringId) { return Table::strings; }
constexpr Table table_of(ModuleId) { return Table::modules; }
constexpr Table table_of(FrameId) { return Table::frames; }
constexpr Table table_of(HeapId) { return Table::heaps; }
constexpr Table table_of(PoolId) { return Table::pools; }
constexpr Table table_of(StreamId) { return Table::streams; }
constexpr Table table_of(ThreadId) { return Table::threads; }

/// Maps the file's row numbers to IDs, and remembers if one did not exist.
class RowResolver {
 public:
  explicit RowResolver(const RowSpace& rows) : rows_(rows) {}

  template <class Id>
  void at(std::uint64_t row, Id& id) {
    const bool exists = rows_.has(table_of(id), row);
    failed_ = failed_ || !exists;
    id = exists ? Id{rows_(table_of(id), row)} : Id{0};
  }
  /// For a row that is not counted yet, the `i`-th.
  void at_back(std::uint64_t back, std::uint64_t i, StackId& id) {
    const std::uint64_t row = rows_.count[Table::stacks] + i + 1;
    failed_ = failed_ || back >= row;
    id = StackId{back == 0 || back >= row ? 0 : rows_(Table::stacks, row - back)};
  }
  bool failed() const { return failed_; }

 private:
  const RowSpace& rows_;
  bool failed_ = false;
};

/// Settings without a value have an empty one.
Settings decode_settings(std::string_view message, RowResolver& rows) {
  wire::ColumnsOf<wire::Setting> columns;
  wire::read_columns(message, columns);
  Settings row;
  columns.append_to(row.entries, rows);
  return row;
}

/// The columns of frames, stacks and origins, as in the message.
struct RowColumns {
  wire::ColumnsOf<Frame> frames;
  wire::ColumnsOf<Stack> stacks;
  wire::ColumnsOf<Origin> origins;

  bool read(MessageReader<RowsField>& in) { return frames.read(in) || stacks.read(in) || origins.read(in); }
  bool consistent() const {
    return frames.have_equal_length() && stacks.have_equal_length() && origins.have_equal_length();
  }
};

bool append_columns(const RowColumns& columns, Tables& tables, RowSpace& space, RowResolver& rows) {
  if (!columns.consistent()) return false;
  const std::size_t first_frame = tables.frames.size();
  columns.frames.append_to(tables.frames, rows);
  space.count[Table::frames] += static_cast<std::uint32_t>(columns.frames.count());
  classify_frames(tables, first_frame);
  columns.stacks.append_to(tables.stacks, rows);
  space.count[Table::stacks] += static_cast<std::uint32_t>(columns.stacks.count());
  columns.origins.append_to(tables.origins, rows);
  space.count[Table::origins] += static_cast<std::uint32_t>(columns.origins.count());
  return !rows.failed();
}

/// Says of the empty rows after the `kept` ones that their names were lost, rather than printing them as nothing.
void name_lost_rows(Tables& tables, const wire::RowCounts& kept) {
  const auto lost_rows = [&]<class Row>(std::vector<Row>& rows, Table table) {
    return std::span(rows).subspan(kept[table] + 1);
  };
  const auto first_lost = [&]<class Id>(Id none, std::size_t rows) {
    const std::uint32_t first = kept[table_of(none)] + 1;
    return first < rows ? Id{first} : none;
  };
  std::ranges::fill(lost_rows(tables.strings, Table::strings), lost_name);
  const StringId name = first_lost(StringId::none, tables.strings.size());
  for (Frame& frame : lost_rows(tables.frames, Table::frames)) frame.function = name;
  for (Heap& heap : lost_rows(tables.heaps, Table::heaps)) heap.name = name;
  const FrameId frame = first_lost(FrameId::none, tables.frames.size());
  for (Stack& stack : lost_rows(tables.stacks, Table::stacks)) stack.frame = frame;
  const HeapId heap = first_lost(HeapId::none, tables.heaps.size());
  for (Origin& origin : lost_rows(tables.origins, Table::origins)) origin.heap = heap;
}

}  // namespace

void TableReader::begin_trace() {
  rows_.base = wire::row_counts(tables_);
  rows_.count = {};
}

void TableReader::shrink_to(const wire::RowCounts& count) {
  rows_.count = count;
  wire::for_each_table(tables_, [&](Table table, auto& rows) { rows.resize(rows_.base[table] + count[table] + 1); });
  depths_.bound(tables_.stacks);
}

bool TableReader::too_many_heaps(std::uint32_t count) const {
  return std::uint64_t{rows_.base[Table::heaps]} + count > max_heaps;
}

bool TableReader::fill_up_to(const wire::RowCounts& expected) {
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < wire::table_count; ++i)
    if (expected.count[i] > rows_.count.count[i]) missing += expected.count[i] - rows_.count.count[i];
  if (missing == 0) return true;
  if (missing_rows_ + missing > max_missing_rows || too_many_heaps(expected[Table::heaps])) return false;
  missing_rows_ += missing;
  wire::RowCounts filled = rows_.count;
  for (std::size_t i = 0; i < wire::table_count; ++i) filled.count[i] = std::max(filled.count[i], expected.count[i]);
  const wire::RowCounts kept = wire::row_counts(tables_);
  shrink_to(filled);
  name_lost_rows(tables_, kept);
  return true;
}

bool TableReader::add(std::string_view message, wire::Decompressor& decompressor) {
  const auto tables = wire::read_message<wire::TablesMessage>(message);
  const wire::RowCounts& before = tables.rows_before;
  const std::size_t size = tables.rows_size;
  compressed_size_ += tables.rows_zstd.size();
  if (size > wire::max_content_size || content_size_ + size > wire::max_rows_size(compressed_size_)) return false;
  content_size_ += size;
  const auto content = decompressor.decompress(tables.rows_zstd, size);
  if (!content || !fill_up_to(before) || before != rows_.count) return false;
  try {
    if (add_rows(*content)) return true;
  } catch (const protozero::exception&) {
  }
  shrink_to(before);
  return false;
}

bool TableReader::add_rows(std::string_view content) {
  // Rows count as they are appended, so a row can only refer to an existing one.
  RowResolver rows(rows_);
  RowColumns columns;
  MessageReader<RowsField> message(content);
  const auto added = [this](Table table) {
    ++rows_.count[table];
    memory_ += row_memory(table);
  };
  const auto add_message = [&]<class Row>(Table table, std::vector<Row>& list) {
    Row row;
    wire::read_message(message.bytes(), row, rows);
    list.push_back(std::move(row));
    added(table);
  };
  while (message.next() && !over_limit()) {
    switch (message.field()) {
      case RowsField::strings:
        tables_.strings.emplace_back(message.bytes());
        make_printable(tables_.strings.back());  // here, once, for all later output
        memory_ += Bytes{tables_.strings.back().size()};
        added(Table::strings);
        break;
      case RowsField::modules:
        add_message(Table::modules, tables_.modules);
        break;
      case RowsField::heaps:
        add_message(Table::heaps, tables_.heaps);
        break;
      case RowsField::pools:
        add_message(Table::pools, tables_.pools);
        break;
      case RowsField::stream_handles:
        for (const std::uint64_t handle : message.fixed_numbers()) {
          tables_.streams.push_back({handle});
          added(Table::streams);
        }
        break;
      case RowsField::threads:
        add_message(Table::threads, tables_.threads);
        break;
      case RowsField::marks:
        add_message(Table::marks, tables_.marks);
        break;
      case RowsField::settings:
        tables_.settings.push_back(decode_settings(message.bytes(), rows));
        memory_ += Bytes{tables_.settings.back().entries.size() * sizeof(Settings{}.entries.front())};
        added(Table::settings);
        break;
      default:
        if (!columns.read(message)) message.skip();
    }
  }
  memory_ += row_memory(Table::frames) * columns.frames.count() + row_memory(Table::stacks) * columns.stacks.count() +
             row_memory(Table::origins) * columns.origins.count();
  if (over_limit()) return false;
  if (!append_columns(columns, tables_, rows_, rows) || too_many_heaps(rows_.count[Table::heaps])) return false;
  depths_.bound(tables_.stacks);
  return true;
}

}  // namespace memreel
