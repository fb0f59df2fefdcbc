#include "formats/writer/table_encoder.h"

#include <algorithm>
#include <concepts>
#include <protozero/pbf_builder.hpp>

#include "formats/wire/column.h"
#include "formats/wire/framing.h"
#include "formats/wire/schema.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using wire::Table;

/// Rows of about this many bytes go into one packet. A damaged packet costs no more than its own rows.
constexpr std::size_t rows_per_packet_size = std::size_t{512} << 10U;

struct RowRange {
  std::uint32_t begin = 0, end = 0;  // row numbers
  std::size_t count() const { return end - begin; }
};

/// Takes rows from one table after the other until they fill a packet.
class RowBudget {
 public:
  RowBudget(wire::RowCounts& sent, const wire::RowCounts& all) : sent_(sent), all_(all) {}

  /// The next rows of `table`; `size_of(row)` is a row's approximate size.
  template <std::invocable<std::uint32_t> SizeOf>
  RowRange take(Table table, SizeOf size_of) {
    RowRange range{sent_[table] + 1, sent_[table] + 1};
    while (range.end <= all_[table] && used_ < rows_per_packet_size) used_ += size_of(range.end++);
    sent_[table] = range.end - 1;
    return range;
  }
  RowRange take(Table table, std::size_t row_size) {
    return take(table, [row_size](std::uint32_t) { return row_size; });
  }

 private:
  wire::RowCounts& sent_;
  const wire::RowCounts& all_;
  std::size_t used_ = 0;
};

class RowsWriter {
 public:
  explicit RowsWriter(std::string& message) : message_(message) {}

  /// A column of `get(row)`.
  template <class Get>
  void column(wire::RowsField field, RowRange range, Get get) {
    if (range.count() == 0) return;
    message_.add_bytes(field, view(encoder_.encode_all(range.count(), [&](std::size_t i) -> std::uint64_t {
                         return get(range.begin + static_cast<std::uint32_t>(i));
                       })));
  }

  pbf_builder<wire::RowsField>& message() { return message_; }

 private:
  static protozero::data_view view(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

  pbf_builder<wire::RowsField> message_;
  wire::ColumnEncoder encoder_;
};

void write_strings(RowsWriter& rows, const Tables& tables, RowRange range) {
  for (std::uint32_t i = range.begin; i < range.end; ++i)
    rows.message().add_string(wire::RowsField::strings, tables.strings[i]);
}

void write_modules(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::ModuleField;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const Module& row = tables.modules[i];
    pbf_builder<ModuleField> message(rows.message(), wire::RowsField::modules);
    if (row.path != StringId::none) message.add_uint32(ModuleField::path, index(row.path));
    if (!row.build_id.empty()) message.add_bytes(ModuleField::build_id, row.build_id);
    if (row.base.value != 0) message.add_fixed64(ModuleField::base, row.base.value);
    if (row.size.count != 0) message.add_uint64(ModuleField::size, row.size.count);
  }
}

void write_frames(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::RowsField;
  const auto& frames = tables.frames;
  rows.column(RowsField::frame_function, range, [&](std::uint32_t i) { return index(frames[i].function); });
  rows.column(RowsField::frame_file, range, [&](std::uint32_t i) { return index(frames[i].file); });
  rows.column(RowsField::frame_line, range, [&](std::uint32_t i) { return frames[i].line; });
  rows.column(RowsField::frame_module, range, [&](std::uint32_t i) { return index(frames[i].module); });
  rows.column(RowsField::frame_module_offset, range, [&](std::uint32_t i) { return frames[i].module_offset; });
  const auto has_instance = [&](const Frame& frame) { return frame.instance != StringId::none; };
  if (std::any_of(frames.begin() + range.begin, frames.begin() + range.end, has_instance))
    rows.column(RowsField::frame_instance, range, [&](std::uint32_t i) { return index(frames[i].instance); });
}

void write_stacks(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::RowsField;
  const auto& stacks = tables.stacks;
  rows.column(RowsField::stack_frame, range, [&](std::uint32_t i) { return index(stacks[i].frame); });
  rows.column(RowsField::stack_caller_back, range,
              [&](std::uint32_t i) { return stacks[i].caller == StackId::none ? 0 : i - index(stacks[i].caller); });
}

void write_heaps(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::HeapField;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const Heap& row = tables.heaps[i];
    pbf_builder<HeapField> message(rows.message(), wire::RowsField::heaps);
    if (row.name != StringId::none) message.add_uint32(HeapField::name, index(row.name));
    if (row.level != Level::driver) message.add_enum(HeapField::level, static_cast<std::int32_t>(row.level));
    if (row.device != 0) message.add_sint32(HeapField::device, row.device);
    if (row.parent != HeapId::none) message.add_uint32(HeapField::parent, index(row.parent));
    if (!row.observes_completion) message.add_bool(HeapField::completes_at_request, true);
  }
}

void write_pools(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::PoolField;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const Pool& row = tables.pools[i];
    pbf_builder<PoolField> message(rows.message(), wire::RowsField::pools);
    if (row.name != StringId::none) message.add_uint32(PoolField::name, index(row.name));
    if (row.key_high != 0) message.add_fixed64(PoolField::key_high, row.key_high);
    if (row.key_low != 0) message.add_fixed64(PoolField::key_low, row.key_low);
    if (row.inferred) message.add_bool(PoolField::inferred, true);
  }
}

void write_streams(RowsWriter& rows, const Tables& tables, RowRange range) {
  std::vector<std::uint64_t> handles;
  for (std::uint32_t i = range.begin; i < range.end; ++i) handles.push_back(tables.streams[i].handle);
  rows.message().add_packed_fixed64(wire::RowsField::stream_handles, handles.begin(), handles.end());
}

void write_threads(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::ThreadField;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const Thread& row = tables.threads[i];
    pbf_builder<ThreadField> message(rows.message(), wire::RowsField::threads);
    if (row.tid != 0) message.add_uint64(ThreadField::tid, row.tid);
    if (row.name != StringId::none) message.add_uint32(ThreadField::name, index(row.name));
  }
}

void write_origins(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::RowsField;
  const auto& origins = tables.origins;
  rows.column(RowsField::origin_heap, range, [&](std::uint32_t i) { return index(origins[i].heap); });
  rows.column(RowsField::origin_pool, range, [&](std::uint32_t i) { return index(origins[i].pool); });
  rows.column(RowsField::origin_stream, range, [&](std::uint32_t i) { return index(origins[i].stream); });
  rows.column(RowsField::origin_thread, range, [&](std::uint32_t i) { return index(origins[i].thread); });
  const auto has_metadata = [](const Origin& origin) { return origin.metadata != StringId::none; };
  if (std::any_of(origins.begin() + range.begin, origins.begin() + range.end, has_metadata))
    rows.column(RowsField::origin_metadata, range, [&](std::uint32_t i) { return index(origins[i].metadata); });
}

void write_marks(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::MarkField;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const Mark& row = tables.marks[i];
    pbf_builder<MarkField> message(rows.message(), wire::RowsField::marks);
    if (row.name != StringId::none) message.add_uint32(MarkField::name, index(row.name));
    if (row.phase != MarkPhase::instant) message.add_enum(MarkField::phase, static_cast<std::int32_t>(row.phase));
  }
}

void write_settings(RowsWriter& rows, const Tables& tables, RowRange range) {
  using wire::SettingsField;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    std::vector<std::uint32_t> keys, values;
    for (const auto& [key, value] : tables.settings[i].entries) {
      keys.push_back(index(key));
      values.push_back(index(value));
    }
    pbf_builder<SettingsField> message(rows.message(), wire::RowsField::settings);
    message.add_packed_uint32(SettingsField::keys, keys.begin(), keys.end());
    message.add_packed_uint32(SettingsField::values, values.begin(), values.end());
  }
}

}  // namespace

std::string encode_tables(const Tables& tables, wire::RowCounts& sent, wire::Compressor& compressor) {
  const wire::RowCounts before = sent;
  const wire::RowCounts all = wire::row_counts(tables);
  RowBudget budget(sent, all);
  std::string content;
  {
    RowsWriter rows(content);
    write_strings(rows, tables,
                  budget.take(Table::strings, [&](std::uint32_t i) { return tables.strings[i].size() + 2; }));
    write_modules(rows, tables, budget.take(Table::modules, 64));
    write_frames(rows, tables, budget.take(Table::frames, 8));
    write_stacks(rows, tables, budget.take(Table::stacks, 4));
    write_heaps(rows, tables, budget.take(Table::heaps, 16));
    write_pools(rows, tables, budget.take(Table::pools, 24));
    write_streams(rows, tables, budget.take(Table::streams, 8));
    write_threads(rows, tables, budget.take(Table::threads, 16));
    write_origins(rows, tables, budget.take(Table::origins, 6));
    write_marks(rows, tables, budget.take(Table::marks, 8));
    write_settings(rows, tables, budget.take(Table::settings, [&](std::uint32_t i) {
      return 8 + 6 * tables.settings[i].entries.size();
    }));
  }
  const std::string_view frame = compressor.compress(content);

  std::string packet = wire::open_packet();
  {
    pbf_builder<wire::PacketField> body(packet);
    pbf_builder<wire::TablesField> message(body, wire::PacketField::tables);
    message.add_bytes(wire::TablesField::rows_zstd, frame.data(), frame.size());
    message.add_uint32(wire::TablesField::rows_size, static_cast<std::uint32_t>(content.size()));
    message.add_bytes(wire::TablesField::rows_before, wire::encode(before));
  }
  wire::seal_packet(packet);
  return packet;
}

}  // namespace memreel
