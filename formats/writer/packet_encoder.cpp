// SPDX-License-Identifier: Apache-2.0
#include "formats/writer/packet_encoder.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>

#include "formats/wire/framing.h"
#include "formats/wire/message.h"
#include "formats/wire/rows.h"

namespace memreel {
namespace {

using protozero::pbf_writer;
using wire::PacketField;
using wire::RowsField;
using wire::Table;

/// A packet whose body `fill(message)` writes: about `size` bytes.
template <std::invocable<pbf_writer&> Fill>
std::string make_packet(PacketField kind, Fill fill, std::size_t size = 0) {
  std::string packet = wire::open_packet();
  packet.reserve(packet.size() + size);
  {
    pbf_writer body(packet);
    pbf_writer message(body, static_cast<std::uint32_t>(kind));
    fill(message);
  }
  wire::seal_packet(packet);
  return packet;
}

template <wire::HasMembers Message>
std::string make_packet(PacketField kind, const Message& message, std::size_t size = 0) {
  return make_packet(
      kind, [&](pbf_writer& out) { wire::write_message(out, message); }, size);
}

std::uint32_t size_of(const std::string& content) { return static_cast<std::uint32_t>(content.size()); }

/// Rows of about this many bytes go into one packet. A damaged packet costs no more than its own rows.
constexpr std::size_t rows_per_packet_size = std::size_t{512} << 10U;

/// Takes rows from one table after the other until they fill a packet.
class RowBudget {
 public:
  explicit RowBudget(wire::RowCounts& sent) : sent_(sent) {}

  /// The next rows of `table`; `size_of(row)` is a row's approximate size.
  template <class Row, std::invocable<const Row&> SizeOf>
  std::span<const Row> take(Table table, const std::vector<Row>& rows, SizeOf size_of) {
    const std::size_t begin = sent_[table] + std::size_t{1};
    std::size_t end = begin;
    while (end < rows.size() && used_ < rows_per_packet_size) used_ += size_of(rows[end++]);
    sent_[table] = static_cast<std::uint32_t>(end - 1);
    return std::span(rows).subspan(begin, end - begin);
  }
  template <class Row>
  std::span<const Row> take(Table table, const std::vector<Row>& rows, std::size_t row_size) {
    return take(table, rows, [row_size](const Row&) { return row_size; });
  }

 private:
  wire::RowCounts& sent_;
  std::size_t used_ = 0;
};

/// Writes rows as a message each.
template <class Row>
void write_rows(pbf_writer& out, RowsField field, std::span<const Row> rows) {
  for (const Row& row : rows) {
    pbf_writer message(out, static_cast<std::uint32_t>(field));
    wire::write_message(message, row);
  }
}

void write_streams(pbf_writer& out, std::span<const Stream> streams) {
  std::vector<std::uint64_t> handles;
  for (const Stream& stream : streams) handles.push_back(stream.handle);
  out.add_packed_fixed64(static_cast<std::uint32_t>(RowsField::stream_handles), handles.begin(), handles.end());
}

void write_settings(pbf_writer& out, std::span<const Settings> rows) {
  for (const Settings& row : rows) {
    pbf_writer message(out, static_cast<std::uint32_t>(RowsField::settings));
    wire::write_columns(message, std::span(row.entries));
  }
}

}  // namespace

std::string encode_tables(const Tables& tables, wire::RowCounts& sent, wire::Compressor& compressor) {
  const wire::RowCounts before = sent;
  RowBudget budget(sent);
  std::string content;
  pbf_writer rows(content);
  const auto text_size = [](const std::string& text) { return text.size() + 2; };
  for (const std::string& text : budget.take(Table::strings, tables.strings, text_size))
    rows.add_string(static_cast<std::uint32_t>(RowsField::strings), text);
  write_rows(rows, RowsField::modules, budget.take(Table::modules, tables.modules, 64));
  wire::write_columns(rows, budget.take(Table::frames, tables.frames, 8));
  wire::write_columns(rows, budget.take(Table::stacks, tables.stacks, 4), before[Table::stacks] + 1);
  write_rows(rows, RowsField::heaps, budget.take(Table::heaps, tables.heaps, 16));
  write_rows(rows, RowsField::pools, budget.take(Table::pools, tables.pools, 24));
  write_streams(rows, budget.take(Table::streams, tables.streams, 8));
  write_rows(rows, RowsField::threads, budget.take(Table::threads, tables.threads, 16));
  wire::write_columns(rows, budget.take(Table::origins, tables.origins, 6));
  write_rows(rows, RowsField::marks, budget.take(Table::marks, tables.marks, 8));
  write_settings(rows, budget.take(Table::settings, tables.settings,
                                   [](const Settings& row) { return 8 + 6 * row.entries.size(); }));
  return make_packet(PacketField::tables, wire::TablesMessage{.rows_zstd = compressor.compress(content),
                                                              .rows_size = size_of(content),
                                                              .rows_before = before});
}

namespace {

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
  using Message = wire::EventColumnsMessage;
  using wire::number_of;
  columns_.clear();
  pbf_writer message(columns_);
  const auto add = [&message](std::uint32_t field, std::string_view bytes) {
    if (!bytes.empty()) message.add_bytes(field, bytes.data(), bytes.size());
  };
  const auto add_values = [&]<class T>(std::uint32_t field, const std::vector<T>& values) {
    add(field, encoder_.encode(std::span<const T>(values)));
  };

  // Kinds are one byte each and below 128, so their varint column is a column of bytes.
  add(number_of(&Message::kind), encoder_.encode(block.count(), [&](std::size_t i) -> std::uint64_t {
    return static_cast<std::uint8_t>(block.kind[i]);
  }));
  const std::int64_t unit = time_unit_of(block.time);
  add(number_of(&Message::time_delta), encoder_.encode(block.count(), [&](std::size_t i) {
    return i == 0 ? 0 : wire::zigzag(delta(block.time[i - 1], block.time[i]) / unit);
  }));
  message.add_uint32(number_of(&Message::time_unit), static_cast<std::uint32_t>(unit));
  add_values(number_of(&Message::origin), block.origin);
  add_values(number_of(&Message::stack), block.stack);
  add_values(number_of(&Message::requested_back), block.requested_back);
  add_values(number_of(&Message::completed_back), block.completed_back);

  const AddressCode code = address_code_of(block);
  const auto add_addresses = [&](std::uint32_t field, const std::vector<std::uint64_t>& addresses) {
    add(field, encoder_.encode(addresses.size(), [&](std::size_t i) { return code(addresses[i]); }));
  };
  add_addresses(number_of(&Message::address), block.address);
  if (code.base != 0) message.add_uint64(number_of(&Message::address_base), code.base);
  if (code.shift != 0) message.add_uint32(number_of(&Message::address_shift), static_cast<std::uint32_t>(code.shift));
  add_values(number_of(&Message::size), block.size);
  add_values(number_of(&Message::value), block.value);
  add_addresses(number_of(&Message::unmatched_address), block.unmatched_address);
  add_values(number_of(&Message::unmatched_size), block.unmatched_size);
}

std::string BlockEncoder::encode(const PendingBlock& block, const std::vector<HeapState>& state_after,
                                 const wire::RowCounts& rows, wire::Compressor& compressor) {
  encode_columns(block);
  const std::string_view frame = compressor.compress(columns_);
  const wire::BlockMessage message{
      .count = static_cast<std::uint32_t>(block.count()),
      .first_event = block.first_event,
      .first_allocation = block.first_allocation,
      .first_time = block.time.front(),
      .last_time = block.time.back(),
      .state_after = state_after,
      .rows_before = rows,
      .columns_zstd = frame,
      .columns_size = size_of(columns_),
      .allocation_count = static_cast<std::uint32_t>(std::ranges::count(block.kind, EventKind::alloc))};
  return make_packet(PacketField::events, message, frame.size() + 256);
}

namespace {

/// A message of columns.
template <class... Rows>
std::string encode_columns(std::span<const Rows>... lists) {
  std::string content;
  pbf_writer message(content);
  (wire::write_columns(message, lists), ...);
  return content;
}

}  // namespace

std::string encode_header(const Header& header) {
  return make_packet(PacketField::header, [&](pbf_writer& message) {
    message.add_uint32(static_cast<std::uint32_t>(wire::HeaderField::version), wire::format_version);
    wire::write_message(message, header);
  });
}

std::string encode_losses(const Losses& losses) { return make_packet(PacketField::losses, losses); }

std::string encode_folded(const FoldedHistory& folded, std::span<const FoldedRow> rows, wire::Compressor& compressor) {
  const std::string content = encode_columns(rows);
  return make_packet(PacketField::folded, wire::FoldedMessage{.begin = folded.begin,
                                                              .until = folded.until,
                                                              .interval = folded.interval,
                                                              .rows_zstd = compressor.compress(content),
                                                              .rows_size = size_of(content)});
}

std::string encode_initial_heap(const InitialHeap& initial, wire::Compressor& compressor) {
  std::vector<wire::BlockCount> counts;
  std::vector<InitialBlock> blocks;
  for (const InitialSegment& segment : initial.segments) {
    counts.push_back({segment.blocks.size()});
    blocks.insert(blocks.end(), segment.blocks.begin(), segment.blocks.end());
  }
  const std::string content =
      encode_columns<InitialSegment, wire::BlockCount, InitialBlock>(initial.segments, counts, blocks);
  if (content.size() > wire::max_content_size) return {};
  return make_packet(PacketField::initial_heap, wire::InitialHeapMessage{.heap = initial.heap,
                                                                         .rows_zstd = compressor.compress(content),
                                                                         .rows_size = size_of(content)});
}

std::string encode_python_holders(const PythonHolders& holders, wire::Compressor& compressor) {
  using Row = wire::MembersOf<PythonHolder>;
  std::string content;
  pbf_writer rows(content);
  for (const PythonHolder& row : holders.rows) rows.add_string(Row::text, row.text);
  for (const PythonHolder& row : holders.rows) rows.add_string(Row::kind, row.kind);
  content += encode_columns<PythonHolder, PythonBlock>(holders.rows, holders.blocks);
  return make_packet(PacketField::python_holders,
                     wire::PythonHoldersMessage{.time = holders.time,
                                                .took_ns = static_cast<std::uint64_t>(holders.took.count()),
                                                .objects = holders.objects,
                                                .note = holders.note,
                                                .rows_zstd = compressor.compress(content),
                                                .rows_size = size_of(content)});
}

std::string encode_keyframe(const HeapSnapshot& snapshot, Nanoseconds time, wire::Compressor& compressor) {
  const std::string content = encode_columns<LiveAllocation, LiveSegment>(snapshot.allocations, snapshot.segments);
  if (content.size() > wire::max_content_size) return {};
  std::string packet =
      make_packet(PacketField::keyframe, wire::KeyframeMessage{.event = snapshot.event,
                                                               .time = time,
                                                               .rows_zstd = compressor.compress(content),
                                                               .rows_size = size_of(content)});
  return packet.size() > wire::max_packet_size ? std::string{} : packet;
}

std::string encode_footer(const wire::FooterMessage& footer) {
  std::string packet = make_packet(PacketField::footer, [&](pbf_writer& message) {
    wire::write_columns(message, std::span(footer.packets));
    wire::write_message(message, footer);
    message.add_fixed32(static_cast<std::uint32_t>(wire::FooterField::footer_size), 0);
  });
  if (packet.size() > wire::max_packet_size) return {};
  // Its own size is known only now.
  const auto size = static_cast<std::uint32_t>(packet.size());
  std::memcpy(packet.data() + packet.size() - sizeof size, &size, sizeof size);
  wire::seal_packet(packet);
  return packet;
}

}  // namespace memreel
