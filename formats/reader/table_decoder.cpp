// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/table_decoder.h"

#include <algorithm>
#include <array>

#include "formats/model/frame_kind.h"
#include "formats/model/stack_text.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"

namespace memreel {
namespace {

using wire::MessageReader;
using wire::RowsField;
using wire::Table;

/// Maximum rows in one lost packet, and in all of them together.
constexpr std::uint64_t max_missing_rows = std::uint64_t{1} << 20U;

/// Calls `use(table, rows)` for each table.
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

/// Memory per row, while its vector grows.
Bytes row_memory(Table table) {
  static constexpr std::array<std::size_t, wire::table_count> sizes{
      sizeof(std::string), sizeof(Module), sizeof(Frame),   sizeof(Stack) + sizeof(std::uint16_t),
      sizeof(Heap),        sizeof(Pool),   sizeof(Stream),  sizeof(Thread),
      sizeof(Origin),      sizeof(Mark),   sizeof(Settings)};
  return Bytes{2 * sizes.at(static_cast<std::size_t>(table))};
}

/// Maps the file's row numbers to IDs, and remembers if one did not exist.
class RowResolver {
 public:
  explicit RowResolver(const RowSpace& rows) : rows_(rows) {}

  template <class Id>
  Id get(Table table, std::uint64_t row) {
    if (!rows_.has(table, row)) {
      failed_ = true;
      return Id{0};
    }
    return Id{rows_(table, row)};
  }
  StringId string(std::uint64_t row) { return get<StringId>(Table::strings, row); }
  bool failed() const { return failed_; }

 private:
  const RowSpace& rows_;
  bool failed_ = false;
};

Module decode_module(MessageReader<wire::ModuleField> message, RowResolver& rows) {
  using Field = wire::ModuleField;
  Module row;
  while (message.next()) {
    switch (message.field()) {
      case Field::path:
        row.path = rows.string(message.uint32());
        break;
      case Field::build_id:
        row.build_id = message.bytes();
        break;
      case Field::base:
        row.base = {message.fixed64()};
        break;
      case Field::size:
        row.size = {message.uint64()};
        break;
      default:
        message.skip();
    }
  }
  return row;
}

Heap decode_heap(MessageReader<wire::HeapField> message, RowResolver& rows) {
  using Field = wire::HeapField;
  Heap row;
  while (message.next()) {
    switch (message.field()) {
      case Field::name:
        row.name = rows.string(message.uint32());
        break;
      case Field::level:
        row.level = message.uint64() == 0 ? Level::driver : Level::framework;
        break;
      case Field::device:
        row.device = message.sint32();
        break;
      case Field::parent:
        row.parent = rows.get<HeapId>(Table::heaps, message.uint32());
        break;
      case Field::completes_at_request:
        row.observes_completion = !message.boolean();
        break;
      default:
        message.skip();
    }
  }
  return row;
}

Pool decode_pool(MessageReader<wire::PoolField> message, RowResolver& rows) {
  using Field = wire::PoolField;
  Pool row;
  while (message.next()) {
    switch (message.field()) {
      case Field::name:
        row.name = rows.string(message.uint32());
        break;
      case Field::key_high:
        row.key_high = message.fixed64();
        break;
      case Field::key_low:
        row.key_low = message.fixed64();
        break;
      case Field::inferred:
        row.inferred = message.boolean();
        break;
      default:
        message.skip();
    }
  }
  return row;
}

Thread decode_thread(MessageReader<wire::ThreadField> message, RowResolver& rows) {
  using Field = wire::ThreadField;
  Thread row;
  while (message.next()) {
    switch (message.field()) {
      case Field::tid:
        row.tid = message.uint64();
        break;
      case Field::name:
        row.name = rows.string(message.uint32());
        break;
      default:
        message.skip();
    }
  }
  return row;
}

Mark decode_mark(MessageReader<wire::MarkField> message, RowResolver& rows) {
  using Field = wire::MarkField;
  Mark row;
  while (message.next()) {
    switch (message.field()) {
      case Field::name:
        row.name = rows.string(message.uint32());
        break;
      case Field::phase: {
        const auto phase = message.uint64();  // an unknown phase becomes an instant
        row.phase = phase == 1 ? MarkPhase::begin : phase == 2 ? MarkPhase::end : MarkPhase::instant;
        break;
      }
      default:
        message.skip();
    }
  }
  return row;
}

Settings decode_settings(MessageReader<wire::SettingsField> message, RowResolver& rows) {
  using Field = wire::SettingsField;
  std::vector<std::uint64_t> keys, values;
  while (message.next()) {
    switch (message.field()) {
      case Field::keys:
        keys = message.numbers();
        break;
      case Field::values:
        values = message.numbers();
        break;
      default:
        message.skip();
    }
  }
  values.resize(keys.size());
  Settings row;
  for (std::size_t i = 0; i < keys.size(); ++i) row.entries.emplace_back(rows.string(keys[i]), rows.string(values[i]));
  return row;
}

/// The columns of frames, stacks and origins, as in the message.
struct RowColumns {
  std::vector<std::uint64_t> frame_function, frame_file, frame_line, frame_module, frame_module_offset, frame_instance;
  std::vector<std::uint64_t> stack_frame, stack_caller_back;
  std::vector<std::uint64_t> origin_heap, origin_pool, origin_stream, origin_thread, origin_metadata;

  bool consistent() const {
    const std::size_t frames = frame_function.size(), origins = origin_heap.size();
    return frame_file.size() == frames && frame_line.size() == frames && frame_module.size() == frames &&
           frame_module_offset.size() == frames && (frame_instance.empty() || frame_instance.size() == frames) &&
           stack_frame.size() == stack_caller_back.size() && origin_pool.size() == origins &&
           origin_stream.size() == origins && origin_thread.size() == origins &&
           (origin_metadata.empty() || origin_metadata.size() == origins);
  }
};

bool append_columns(const RowColumns& columns, Tables& tables, RowSpace& space, RowResolver& rows) {
  if (!columns.consistent()) return false;
  const std::size_t first_frame = tables.frames.size();
  for (std::size_t i = 0; i < columns.frame_function.size(); ++i)
    tables.frames.push_back(
        {.function = rows.string(columns.frame_function[i]),
         .file = rows.string(columns.frame_file[i]),
         .line = static_cast<std::uint32_t>(columns.frame_line[i]),
         .module = rows.get<ModuleId>(Table::modules, columns.frame_module[i]),
         .module_offset = columns.frame_module_offset[i],
         .instance = columns.frame_instance.empty() ? StringId::none : rows.string(columns.frame_instance[i])});
  space.count[Table::frames] += static_cast<std::uint32_t>(columns.frame_function.size());
  classify_frames(tables, first_frame);
  for (std::size_t i = 0; i < columns.stack_frame.size(); ++i) {
    const std::uint32_t row = ++space.count[Table::stacks];
    const std::uint64_t back = columns.stack_caller_back[i];
    if (back >= row) return false;
    tables.stacks.push_back({.frame = rows.get<FrameId>(Table::frames, columns.stack_frame[i]),
                             .caller = StackId{back == 0 ? 0 : space(Table::stacks, row - back)}});
  }
  for (std::size_t i = 0; i < columns.origin_heap.size(); ++i)
    tables.origins.push_back(
        {.heap = rows.get<HeapId>(Table::heaps, columns.origin_heap[i]),
         .pool = rows.get<PoolId>(Table::pools, columns.origin_pool[i]),
         .stream = rows.get<StreamId>(Table::streams, columns.origin_stream[i]),
         .thread = rows.get<ThreadId>(Table::threads, columns.origin_thread[i]),
         .metadata = columns.origin_metadata.empty() ? StringId::none : rows.string(columns.origin_metadata[i])});
  space.count[Table::origins] += static_cast<std::uint32_t>(columns.origin_heap.size());
  return !rows.failed();
}

}  // namespace

void TableReader::begin_trace() {
  rows_.base = wire::row_counts(tables_);
  rows_.count = {};
}

void TableReader::shrink_to(const wire::RowCounts& count) {
  rows_.count = count;
  for_each_table(tables_, [&](Table table, auto& rows) { rows.resize(rows_.base[table] + count[table] + 1); });
  depths_.bound(tables_.stacks);
}

/// Removes the caller of a stack that is too deep, so that every walk along callers ends.

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
  shrink_to(filled);
  return true;
}

bool TableReader::add(std::string_view message, wire::Decompressor& decompressor) {
  using Field = wire::TablesField;
  std::string_view frame;
  std::size_t size = 0;
  wire::RowCounts before;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::rows_zstd:
        frame = fields.bytes();
        break;
      case Field::rows_size:
        size = fields.uint32();
        break;
      case Field::rows_before:
        before = wire::decode_row_counts(fields.bytes());
        break;
      default:
        fields.skip();
    }
  }
  compressed_size_ += frame.size();
  if (size > wire::max_content_size || content_size_ + size > wire::max_rows_size(compressed_size_)) return false;
  content_size_ += size;
  const auto content = decompressor.decompress(frame, size);
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
  while (message.next() && !over_limit()) {
    switch (message.field()) {
      case RowsField::strings:
        tables_.strings.emplace_back(message.bytes());
        make_printable(tables_.strings.back());  // here, once, for all later output
        memory_ += Bytes{tables_.strings.back().size()};
        added(Table::strings);
        break;
      case RowsField::frame_function:
        columns.frame_function = message.numbers();
        break;
      case RowsField::frame_file:
        columns.frame_file = message.numbers();
        break;
      case RowsField::frame_line:
        columns.frame_line = message.numbers();
        break;
      case RowsField::frame_module:
        columns.frame_module = message.numbers();
        break;
      case RowsField::frame_module_offset:
        columns.frame_module_offset = message.numbers();
        break;
      case RowsField::frame_instance:
        columns.frame_instance = message.numbers();
        break;
      case RowsField::stack_frame:
        columns.stack_frame = message.numbers();
        break;
      case RowsField::stack_caller_back:
        columns.stack_caller_back = message.numbers();
        break;
      case RowsField::modules:
        tables_.modules.push_back(decode_module(MessageReader<wire::ModuleField>(message.bytes()), rows));
        added(Table::modules);
        break;
      case RowsField::heaps:
        tables_.heaps.push_back(decode_heap(MessageReader<wire::HeapField>(message.bytes()), rows));
        added(Table::heaps);
        break;
      case RowsField::pools:
        tables_.pools.push_back(decode_pool(MessageReader<wire::PoolField>(message.bytes()), rows));
        added(Table::pools);
        break;
      case RowsField::stream_handles:
        for (const std::uint64_t handle : message.fixed_numbers()) {
          tables_.streams.push_back({handle});
          added(Table::streams);
        }
        break;
      case RowsField::threads:
        tables_.threads.push_back(decode_thread(MessageReader<wire::ThreadField>(message.bytes()), rows));
        added(Table::threads);
        break;
      case RowsField::marks:
        tables_.marks.push_back(decode_mark(MessageReader<wire::MarkField>(message.bytes()), rows));
        added(Table::marks);
        break;
      case RowsField::settings:
        tables_.settings.push_back(decode_settings(MessageReader<wire::SettingsField>(message.bytes()), rows));
        memory_ += Bytes{tables_.settings.back().entries.size() * sizeof(Settings{}.entries.front())};
        added(Table::settings);
        break;
      case RowsField::origin_heap:
        columns.origin_heap = message.numbers();
        break;
      case RowsField::origin_pool:
        columns.origin_pool = message.numbers();
        break;
      case RowsField::origin_stream:
        columns.origin_stream = message.numbers();
        break;
      case RowsField::origin_thread:
        columns.origin_thread = message.numbers();
        break;
      case RowsField::origin_metadata:
        columns.origin_metadata = message.numbers();
        break;
      default:
        message.skip();
    }
  }
  memory_ += row_memory(Table::frames) * columns.frame_function.size() +
             row_memory(Table::stacks) * columns.stack_frame.size() +
             row_memory(Table::origins) * columns.origin_heap.size();
  if (over_limit()) return false;
  if (!append_columns(columns, tables_, rows_, rows) || too_many_heaps(rows_.count[Table::heaps])) return false;
  depths_.bound(tables_.stacks);
  return true;
}

}  // namespace memreel
