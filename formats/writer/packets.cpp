// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/packets.h"

#include <protozero/pbf_builder.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>

#include "formats/wire/framing.h"

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

namespace {

using protozero::pbf_builder;
using wire::BlockField;
using wire::ColumnField;

/// Wraps around instead of overflowing; the reader adds with the same arithmetic.
std::int64_t delta(Nanoseconds from, Nanoseconds to) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(to.count()) - static_cast<std::uint64_t>(from.count()));
}

/// The coarsest unit in which all differences are whole: sources that count in microseconds save a byte per event.
std::int64_t time_unit_of(std::span<const Nanoseconds> times) {
  const auto divides = [times](std::int64_t unit) {
    for (std::size_t i = 1; i < times.size(); ++i)
      if (delta(times[i - 1], times[i]) % unit != 0) return false;
    return true;
  };
  if (!divides(1'000)) return 1;
  return divides(1'000'000) ? 1'000'000 : 1'000;
}

/// Addresses are written as distances from the lowest, without their common trailing zero bits. Distances from the
/// previous address take more: a reused address then no longer looks like its first use.
struct AddressCode {
  std::uint64_t base = 0;
  int shift = 0;

  std::uint64_t operator()(std::uint64_t address) const { return (address - base) >> shift; }
};

AddressCode address_code_of(const PendingBlock& block) {
  const auto for_each_address = [&block](auto use) {
    std::ranges::for_each(block.address, use);
    std::ranges::for_each(block.unmatched_address, use);
  };
  if (block.address.empty() && block.unmatched_address.empty()) return {};
  std::uint64_t lowest = ~std::uint64_t{0}, used_bits = 0;
  for_each_address([&](std::uint64_t address) { lowest = std::min(lowest, address); });
  for_each_address([&](std::uint64_t address) { used_bits |= address - lowest; });
  return {.base = lowest, .shift = used_bits == 0 ? 0 : std::countr_zero(used_bits)};
}

}  // namespace

void PendingBlock::clear() {
  kind.clear();
  time.clear();
  origin.clear();
  stack.clear();
  requested_back.clear();
  completed_back.clear();
  address.clear();
  size.clear();
  value.clear();
  unmatched_address.clear();
  unmatched_size.clear();
}

void BlockEncoder::encode_columns(const PendingBlock& block) {
  columns_.clear();
  pbf_builder<ColumnField> message(columns_);
  const auto add = [&message](ColumnField field, std::string_view bytes) {
    if (!bytes.empty()) message.add_bytes(field, bytes.data(), bytes.size());
  };
  const auto add_values = [&]<class T>(ColumnField field, const std::vector<T>& values) {
    add(field, encoder_.encode(std::span<const T>(values)));
  };

  // Kinds are one byte each and below 128, so their varint column is a column of bytes.
  add(ColumnField::kind, encoder_.encode(block.count(), [&](std::size_t i) -> std::uint64_t {
    return static_cast<std::uint8_t>(block.kind[i]);
  }));
  const std::int64_t unit = time_unit_of(block.time);
  add(ColumnField::time_delta, encoder_.encode(block.count(), [&](std::size_t i) {
    return i == 0 ? 0 : wire::zigzag(delta(block.time[i - 1], block.time[i]) / unit);
  }));
  message.add_uint32(ColumnField::time_unit_ns, static_cast<std::uint32_t>(unit));
  add_values(ColumnField::origin, block.origin);
  add_values(ColumnField::stack, block.stack);
  add_values(ColumnField::requested_back, block.requested_back);
  add_values(ColumnField::completed_back, block.completed_back);

  const AddressCode code = address_code_of(block);
  const auto add_addresses = [&](ColumnField field, const std::vector<std::uint64_t>& addresses) {
    add(field, encoder_.encode(addresses.size(), [&](std::size_t i) { return code(addresses[i]); }));
  };
  add_addresses(ColumnField::address, block.address);
  if (code.base != 0) message.add_uint64(ColumnField::address_base, code.base);
  if (code.shift != 0) message.add_uint32(ColumnField::address_shift, static_cast<std::uint32_t>(code.shift));
  add_values(ColumnField::size, block.size);
  add_values(ColumnField::value, block.value);
  add_addresses(ColumnField::unmatched_address, block.unmatched_address);
  add_values(ColumnField::unmatched_size, block.unmatched_size);
}

std::string BlockEncoder::encode(const PendingBlock& block, const std::vector<HeapState>& state_after,
                                 const wire::RowCounts& rows, wire::Compressor& compressor) {
  encode_columns(block);
  const std::string_view frame = compressor.compress(columns_);

  std::string packet = wire::open_packet();
  packet.reserve(packet.size() + frame.size() + 256);
  {
    pbf_builder<wire::PacketField> body(packet);
    pbf_builder<BlockField> message(body, wire::PacketField::events);
    message.add_uint32(BlockField::count, static_cast<std::uint32_t>(block.count()));
    message.add_uint64(BlockField::first_event, block.first_event);
    message.add_uint64(BlockField::first_allocation, block.first_allocation);
    message.add_sint64(BlockField::first_time_ns, block.time.front().count());
    message.add_sint64(BlockField::last_time_ns, block.time.back().count());
    for (const HeapState& heap : state_after) {
      pbf_builder<wire::HeapStateField> state(message, BlockField::state);
      state.add_uint32(wire::HeapStateField::heap, index(heap.heap));
      state.add_uint64(wire::HeapStateField::live_bytes, heap.live.count);
      state.add_uint64(wire::HeapStateField::reserved_bytes, heap.reserved.count);
    }
    message.add_bytes(BlockField::rows_before, wire::encode(rows));
    message.add_bytes(BlockField::columns_zstd, frame.data(), frame.size());
    message.add_uint32(BlockField::columns_size, static_cast<std::uint32_t>(columns_.size()));
    message.add_uint32(BlockField::allocation_count,
                       static_cast<std::uint32_t>(std::ranges::count(block.kind, EventKind::alloc)));
  }
  wire::seal_packet(packet);
  return packet;
}

namespace {

using protozero::pbf_builder;
using wire::PacketField;

/// A packet whose body `fill(message)` writes.
template <class Field, class Fill>
std::string make_packet(PacketField kind, Fill fill) {
  std::string packet = wire::open_packet();
  {
    pbf_builder<PacketField> body(packet);
    pbf_builder<Field> message(body, kind);
    fill(message);
  }
  wire::seal_packet(packet);
  return packet;
}

/// A column with every value written.
template <class Field, class Get>
void add_column(pbf_builder<Field>& message, wire::ColumnEncoder& encoder, Field field, std::size_t count, Get get) {
  const std::string_view bytes = encoder.encode_all(count, get);
  if (!bytes.empty()) message.add_bytes(field, bytes.data(), bytes.size());
}

/// A number, omitted if zero.
template <class Field>
void add_number(pbf_builder<Field>& message, Field field, std::uint64_t number) {
  if (number != 0) message.add_uint64(field, number);
}

std::string encode_rows(const HeapSnapshot& snapshot) {
  using Field = wire::KeyframeRowsField;
  std::string content;
  pbf_builder<Field> message(content);
  wire::ColumnEncoder encoder;
  const auto& live = snapshot.allocations;
  const auto allocations = [&](Field field, auto get) { add_column(message, encoder, field, live.size(), get); };
  allocations(Field::allocation_delta, [&](std::size_t i) -> std::uint64_t {
    return index(live[i].allocation) - (i == 0 ? 0 : index(live[i - 1].allocation));
  });
  allocations(Field::address, [&](std::size_t i) { return live[i].address.value; });
  allocations(Field::size, [&](std::size_t i) { return live[i].size.count; });
  allocations(Field::origin, [&](std::size_t i) -> std::uint64_t { return index(live[i].origin); });
  allocations(Field::stack, [&](std::size_t i) -> std::uint64_t { return index(live[i].stack); });
  allocations(Field::pending, [&](std::size_t i) -> std::uint64_t { return live[i].pending ? 1 : 0; });

  const auto& held = snapshot.segments;
  const auto segments = [&](Field field, auto get) { add_column(message, encoder, field, held.size(), get); };
  segments(Field::segment_address, [&](std::size_t i) { return held[i].address.value; });
  segments(Field::segment_size, [&](std::size_t i) { return held[i].size.count; });
  segments(Field::segment_origin, [&](std::size_t i) -> std::uint64_t { return index(held[i].origin); });
  segments(Field::segment_mapped, [&](std::size_t i) -> std::uint64_t { return held[i].mapped ? 1 : 0; });
  return content;
}

void add_variables(pbf_builder<wire::HeaderField>& message, wire::HeaderField field, const Variables& variables) {
  for (const auto& [name, value] : variables) {
    pbf_builder<wire::VariableField> variable(message, field);
    variable.add_string(wire::VariableField::name, name);
    variable.add_string(wire::VariableField::value, value);
  }
}

}  // namespace

std::string encode_header(const Header& header) {
  using Field = wire::HeaderField;
  return make_packet<Field>(PacketField::header, [&](pbf_builder<Field>& message) {
    message.add_uint32(Field::version, wire::format_version);
    if (!header.producer.empty()) message.add_string(Field::producer, header.producer);
    if (!header.source.empty()) message.add_string(Field::source, header.source);
    if (!header.source_name.empty()) message.add_string(Field::source_name, header.source_name);
    if (!header.host.empty()) message.add_string(Field::host, header.host);
    add_number(message, Field::process, header.process);
    if (header.start.count() != 0) message.add_sint64(Field::start_ns, header.start.count());
    add_variables(message, Field::environment, header.environment);
    add_variables(message, Field::versions, header.versions);
    if (!header.machine.empty()) message.add_string(Field::machine, header.machine);
    add_number(message, Field::byte_order, static_cast<std::uint64_t>(header.byte_order));
    add_number(message, Field::page_size, header.page_size.count);
  });
}

std::string encode_losses(const Losses& losses) {
  using Field = wire::LossesField;
  return make_packet<Field>(PacketField::losses, [&](pbf_builder<Field>& message) {
    add_number(message, Field::ring_full, losses.ring_full);
    add_number(message, Field::stack_table_full, losses.stack_table_full);
    add_number(message, Field::hook_refused, losses.hook_refused);
    add_number(message, Field::unknown_actions, losses.unknown_actions);
    add_number(message, Field::unmatched_frees, losses.unmatched_frees);
    add_number(message, Field::preexisting_allocations, losses.preexisting_allocations);
    if (losses.began_late) message.add_bool(Field::began_late, true);
    if (losses.history_overflowed) message.add_bool(Field::history_overflowed, true);
    add_number(message, Field::skipped, losses.skipped.bits());
    add_number(message, Field::folded_events, losses.folded_events);
    if (losses.folded_until.count() != 0) message.add_sint64(Field::folded_until_ns, losses.folded_until.count());
    add_number(message, Field::folded_left_out, losses.folded_left_out);
  });
}

std::string encode_folded(const FoldedHistory& folded, std::span<const FoldedRow> rows, wire::Compressor& compressor) {
  std::string content;
  {
    using Field = wire::FoldedRowsField;
    pbf_builder<Field> message(content);
    wire::ColumnEncoder encoder;
    const auto column = [&](Field field, auto get) { add_column(message, encoder, field, rows.size(), get); };
    column(Field::interval_delta,
           [&](std::size_t i) -> std::uint64_t { return rows[i].interval - (i == 0 ? 0 : rows[i - 1].interval); });
    column(Field::heap, [&](std::size_t i) -> std::uint64_t { return index(rows[i].heap); });
    column(Field::stack, [&](std::size_t i) -> std::uint64_t { return index(rows[i].stack); });
    column(Field::allocations, [&](std::size_t i) { return rows[i].allocations; });
    column(Field::frees, [&](std::size_t i) { return rows[i].frees; });
    column(Field::allocated_bytes, [&](std::size_t i) { return rows[i].allocated.count; });
    column(Field::freed_bytes, [&](std::size_t i) { return rows[i].freed.count; });
  }
  const std::string_view frame = compressor.compress(content);
  using Field = wire::FoldedField;
  return make_packet<Field>(PacketField::folded, [&](pbf_builder<Field>& message) {
    message.add_sint64(Field::begin_ns, folded.begin.count());
    message.add_sint64(Field::until_ns, folded.until.count());
    message.add_sint64(Field::interval_ns, folded.interval.count());
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
}

std::string encode_initial_heap(const InitialHeap& initial, wire::Compressor& compressor) {
  std::string content;
  {
    using Field = wire::InitialHeapRowsField;
    pbf_builder<Field> message(content);
    wire::ColumnEncoder encoder;
    const std::vector<InitialSegment>& held = initial.segments;
    const auto segments = [&](Field field, auto get) {
      add_column(message, encoder, field, held.size(), [&](std::size_t i) -> std::uint64_t { return get(held[i]); });
    };
    segments(Field::segment_address, [](const InitialSegment& s) { return s.address.value; });
    segments(Field::segment_size, [](const InitialSegment& s) { return s.size.count; });
    segments(Field::segment_origin, [](const InitialSegment& s) { return index(s.origin); });
    segments(Field::segment_small, [](const InitialSegment& s) { return std::uint64_t{s.small}; });
    segments(Field::segment_mapped, [](const InitialSegment& s) { return std::uint64_t{s.mapped}; });
    segments(Field::segment_range, [](const InitialSegment& s) { return s.range.value; });
    segments(Field::segment_blocks, [](const InitialSegment& s) { return s.blocks.size(); });
    std::vector<InitialBlock> all;
    for (const InitialSegment& segment : held) all.insert(all.end(), segment.blocks.begin(), segment.blocks.end());
    add_column(message, encoder, Field::block_size, all.size(), [&](std::size_t i) { return all[i].size.count; });
    add_column(message, encoder, Field::block_use, all.size(),
               [&](std::size_t i) { return static_cast<std::uint64_t>(all[i].use); });
  }
  if (content.size() > wire::max_content_size) return {};
  const std::string_view frame = compressor.compress(content);
  using Field = wire::InitialHeapField;
  return make_packet<Field>(PacketField::initial_heap, [&](pbf_builder<Field>& message) {
    message.add_uint32(Field::heap, index(initial.heap));
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
}

std::string encode_python_holders(const PythonHolders& holders, wire::Compressor& compressor) {
  std::string content;
  {
    using Field = wire::PythonHoldersRowsField;
    pbf_builder<Field> message(content);
    wire::ColumnEncoder encoder;
    for (const PythonHolder& row : holders.rows) message.add_string(Field::text, row.text);
    for (const PythonHolder& row : holders.rows) message.add_string(Field::kind, row.kind);
    const auto column = [&](Field field, auto get) {
      add_column(message, encoder, field, holders.rows.size(), [&](std::size_t i) { return get(holders.rows[i]); });
    };
    column(Field::length, [](const PythonHolder& row) { return row.length; });
    column(Field::length_before, [](const PythonHolder& row) { return row.length_before; });
    column(Field::blocks, [](const PythonHolder& row) { return row.blocks; });
    column(Field::bytes, [](const PythonHolder& row) { return row.bytes.count; });
    const std::vector<PythonBlock>& blocks = holders.blocks;
    add_column(message, encoder, Field::block_address_delta, blocks.size(), [&](std::size_t i) -> std::uint64_t {
      return blocks[i].address.value - (i == 0 ? 0 : blocks[i - 1].address.value);
    });
    add_column(message, encoder, Field::block_holder, blocks.size(),
               [&](std::size_t i) -> std::uint64_t { return blocks[i].holder; });
  }
  const std::string_view frame = compressor.compress(content);
  using Field = wire::PythonHoldersField;
  return make_packet<Field>(PacketField::python_holders, [&](pbf_builder<Field>& message) {
    message.add_sint64(Field::time_ns, holders.time.count());
    message.add_uint64(Field::took_ns, static_cast<std::uint64_t>(holders.took.count()));
    message.add_uint64(Field::objects, holders.objects);
    message.add_string(Field::note, holders.note);
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
}

std::string encode_keyframe(const HeapSnapshot& snapshot, Nanoseconds time, wire::Compressor& compressor) {
  using Field = wire::KeyframeField;
  const std::string content = encode_rows(snapshot);
  if (content.size() > wire::max_content_size) return {};
  const std::string_view frame = compressor.compress(content);
  std::string packet = make_packet<Field>(PacketField::keyframe, [&](pbf_builder<Field>& message) {
    message.add_uint64(Field::event, snapshot.event);
    message.add_sint64(Field::time_ns, time.count());
    message.add_bytes(Field::rows_zstd, frame.data(), frame.size());
    message.add_uint32(Field::rows_size, static_cast<std::uint32_t>(content.size()));
  });
  return packet.size() > wire::max_packet_size ? std::string{} : packet;
}

std::string encode_footer(const PacketDirectory& packets, std::uint64_t event_count, std::uint64_t allocation_count) {
  using Field = wire::FooterField;
  wire::ColumnEncoder encoder;
  const std::size_t count = packets.field.size();
  std::string packet = make_packet<Field>(PacketField::footer, [&](pbf_builder<Field>& message) {
    add_column(message, encoder, Field::packet_field, count,
               [&](std::size_t i) -> std::uint64_t { return packets.field[i]; });
    add_column(message, encoder, Field::packet_size, count, [&](std::size_t i) { return packets.size[i]; });
    add_column(message, encoder, Field::first_event, count, [&](std::size_t i) { return packets.first_event[i]; });
    add_column(message, encoder, Field::first_time_ns, count,
               [&](std::size_t i) { return wire::zigzag(packets.first_time[i]); });
    message.add_uint64(Field::event_count, event_count);
    message.add_uint64(Field::allocation_count, allocation_count);
    message.add_fixed32(Field::footer_size, 0);
  });
  if (packet.size() > wire::max_packet_size) return {};
  // Its own size is known only now.
  const auto size = static_cast<std::uint32_t>(packet.size());
  std::memcpy(packet.data() + packet.size() - sizeof size, &size, sizeof size);
  wire::seal_packet(packet);
  return packet;
}

}  // namespace memreel
