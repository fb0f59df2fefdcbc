// SPDX-License-Identifier: Apache-2.0
// How a trace stores its packets: the lists of members by which they are written and read.
#pragma once

#include "formats/model/live_set.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {

constexpr ByteOrder highest(ByteOrder) { return ByteOrder::big; }
constexpr ByteOrder unknown_as(ByteOrder) { return ByteOrder::unknown; }

constexpr InitialUse highest(InitialUse) { return InitialUse::pending; }
/// A heap can't be restored without it: the packet counts as damaged.
[[noreturn]] inline InitialUse unknown_as(InitialUse) { throw protozero::invalid_length_exception{}; }

namespace wire {

/// Its texts are made printable together (make_printable()).
template <>
struct MembersOf<Header> {
  static constexpr std::tuple all{
      verbatim(2, &Header::producer),    verbatim(3, &Header::source),   verbatim(4, &Header::source_name),
      verbatim(5, &Header::host),        member(6, &Header::process),    member(7, &Header::start),
      verbatim(8, &Header::environment), verbatim(9, &Header::versions), verbatim(10, &Header::machine),
      member(11, &Header::byte_order),   member(12, &Header::page_size)};
};

template <>
struct MembersOf<Losses> {
  static constexpr std::tuple all{member(1, &Losses::ring_full),        member(2, &Losses::stack_table_full),
                                  member(3, &Losses::hook_refused),     member(4, &Losses::unknown_actions),
                                  member(5, &Losses::unmatched_frees),  member(6, &Losses::preexisting_allocations),
                                  member(7, &Losses::began_late),       member(8, &Losses::history_overflowed),
                                  member(9, &Losses::skipped),          member(10, &Losses::folded_events),
                                  member(11, &Losses::folded_until),    member(12, &Losses::folded_left_out),
                                  member(13, &Losses::unsized_failures)};
};

// Messages with many rows, which are columns of another message, as a zstd frame.

struct TablesMessage {
  std::string_view rows_zstd;
  std::uint32_t rows_size = 0;
  RowCounts rows_before;
};
template <>
struct MembersOf<TablesMessage> {
  static constexpr std::tuple all{verbatim(TablesField::rows_zstd, &TablesMessage::rows_zstd),
                                  always(TablesField::rows_size, &TablesMessage::rows_size),
                                  always(TablesField::rows_before, &TablesMessage::rows_before)};
};

template <>
struct MembersOf<HeapState> {
  static constexpr std::tuple all{always(HeapStateField::heap, &HeapState::heap),
                                  always(HeapStateField::live_bytes, &HeapState::live),
                                  always(HeapStateField::reserved_bytes, &HeapState::reserved)};
};

/// An EventBlock message. Numbers and IDs are the file's.
struct BlockMessage {
  std::uint32_t count = 0;
  std::uint64_t first_event = 0;
  std::uint64_t first_allocation = 0;
  Nanoseconds first_time{}, last_time{};
  std::vector<HeapState> state_after;
  RowCounts rows_before;
  std::string_view columns_zstd;
  std::uint32_t columns_size = 0;
  std::uint32_t allocation_count = 0;

  std::uint64_t end_event() const { return first_event + count; }
  std::uint64_t end_allocation() const { return first_allocation + allocation_count; }
};
template <>
struct MembersOf<BlockMessage> {
  using Field = BlockField;
  static constexpr std::tuple all{always(Field::count, &BlockMessage::count),
                                  always(Field::first_event, &BlockMessage::first_event),
                                  always(Field::first_allocation, &BlockMessage::first_allocation),
                                  always(Field::first_time_ns, &BlockMessage::first_time),
                                  always(Field::last_time_ns, &BlockMessage::last_time),
                                  always(Field::state, &BlockMessage::state_after),
                                  always(Field::rows_before, &BlockMessage::rows_before),
                                  verbatim(Field::columns_zstd, &BlockMessage::columns_zstd),
                                  always(Field::columns_size, &BlockMessage::columns_size),
                                  always(Field::allocation_count, &BlockMessage::allocation_count)};
};

/// The columns of a block, an EventColumns message: packed varints (wire/column.h). trace.proto says which event has a
/// value in which.
struct EventColumnsMessage {
  std::string_view kind;
  std::string_view time_delta;
  std::uint32_t time_unit = 1;
  std::string_view origin, stack;
  std::string_view requested_back, completed_back;
  std::string_view address;
  std::uint64_t address_base = 0;
  std::uint32_t address_shift = 0;
  std::string_view size, value;
  std::string_view unmatched_address, unmatched_size;
};
template <>
struct MembersOf<EventColumnsMessage> {
  using Field = ColumnField;
  using Message = EventColumnsMessage;
  static constexpr std::tuple all{verbatim(Field::kind, &Message::kind),
                                  verbatim(Field::time_delta, &Message::time_delta),
                                  always(Field::time_unit_ns, &Message::time_unit),
                                  verbatim(Field::origin, &Message::origin),
                                  verbatim(Field::stack, &Message::stack),
                                  verbatim(Field::requested_back, &Message::requested_back),
                                  verbatim(Field::completed_back, &Message::completed_back),
                                  verbatim(Field::address, &Message::address),
                                  member(Field::address_base, &Message::address_base),
                                  member(Field::address_shift, &Message::address_shift),
                                  verbatim(Field::size, &Message::size),
                                  verbatim(Field::value, &Message::value),
                                  verbatim(Field::unmatched_address, &Message::unmatched_address),
                                  verbatim(Field::unmatched_size, &Message::unmatched_size)};
};

/// The rows of such a message, until the next use of `decompressor`; none if they are too large or damaged.
std::optional<std::string_view> unpack_rows(const auto& message, Decompressor& decompressor) {
  if (message.rows_size > max_content_size) return std::nullopt;
  return decompressor.decompress(message.rows_zstd, message.rows_size);
}

struct FoldedMessage {
  Nanoseconds begin{}, until{}, interval{};
  std::string_view rows_zstd;
  std::uint32_t rows_size = 0;
};
template <>
struct MembersOf<FoldedMessage> {
  static constexpr std::tuple all{always(1, &FoldedMessage::begin), always(2, &FoldedMessage::until),
                                  always(3, &FoldedMessage::interval),
                                  verbatim(FoldedField::rows_zstd, &FoldedMessage::rows_zstd),
                                  always(FoldedField::rows_size, &FoldedMessage::rows_size)};
};
template <>
struct MembersOf<FoldedRow> {
  static constexpr std::tuple all{delta(1, &FoldedRow::interval), member(2, &FoldedRow::heap),
                                  member(3, &FoldedRow::stack),   member(4, &FoldedRow::allocations),
                                  member(5, &FoldedRow::frees),   member(6, &FoldedRow::allocated),
                                  member(7, &FoldedRow::freed)};
};

struct InitialHeapMessage {
  HeapId heap = HeapId::none;
  std::string_view rows_zstd;
  std::uint32_t rows_size = 0;
};
template <>
struct MembersOf<InitialHeapMessage> {
  static constexpr std::tuple all{always(1, &InitialHeapMessage::heap),
                                  verbatim(InitialHeapField::rows_zstd, &InitialHeapMessage::rows_zstd),
                                  always(InitialHeapField::rows_size, &InitialHeapMessage::rows_size)};
};
template <>
struct MembersOf<InitialSegment> {
  static constexpr std::tuple all{member(1, &InitialSegment::address), member(2, &InitialSegment::size),
                                  member(3, &InitialSegment::origin),  member(4, &InitialSegment::small),
                                  member(5, &InitialSegment::mapped),  member(6, &InitialSegment::range)};
};
/// Of a segment: the blocks of all are columns of their own.
struct BlockCount {
  std::uint64_t count = 0;
};
template <>
struct MembersOf<BlockCount> {
  static constexpr std::tuple all{member(7, &BlockCount::count)};
};
template <>
struct MembersOf<InitialBlock> {
  static constexpr std::tuple all{member(8, &InitialBlock::size), member(9, &InitialBlock::use)};
};

struct PythonHoldersMessage {
  Nanoseconds time{};
  std::uint64_t took_ns = 0;
  std::uint64_t objects = 0;
  std::string note;
  std::string_view rows_zstd;
  std::uint32_t rows_size = 0;
};
template <>
struct MembersOf<PythonHoldersMessage> {
  static constexpr std::tuple all{
      always(1, &PythonHoldersMessage::time),        always(2, &PythonHoldersMessage::took_ns),
      always(3, &PythonHoldersMessage::objects),     always(4, &PythonHoldersMessage::note),
      verbatim(5, &PythonHoldersMessage::rows_zstd), always(6, &PythonHoldersMessage::rows_size)};
};
template <>
struct MembersOf<PythonHolder> {
  static constexpr std::uint32_t text = 1, kind = 2;  // not columns: one field for each row
  static constexpr std::tuple all{member(3, &PythonHolder::length), member(4, &PythonHolder::length_before),
                                  member(5, &PythonHolder::blocks), member(6, &PythonHolder::bytes)};
};
template <>
struct MembersOf<PythonBlock> {
  static constexpr std::tuple all{delta(7, &PythonBlock::address), member(8, &PythonBlock::holder)};
};

struct KeyframeMessage {
  std::uint64_t event = 0;
  Nanoseconds time{};
  std::string_view rows_zstd;
  std::uint32_t rows_size = 0;
};
template <>
struct MembersOf<KeyframeMessage> {
  static constexpr std::tuple all{always(KeyframeField::event, &KeyframeMessage::event),
                                  always(KeyframeField::time_ns, &KeyframeMessage::time),
                                  verbatim(KeyframeField::rows_zstd, &KeyframeMessage::rows_zstd),
                                  always(KeyframeField::rows_size, &KeyframeMessage::rows_size)};
};
template <>
struct MembersOf<LiveAllocation> {
  using Field = KeyframeRowsField;
  static constexpr std::tuple all{delta(Field::allocation_delta, &LiveAllocation::allocation),
                                  member(Field::address, &LiveAllocation::address),
                                  member(Field::size, &LiveAllocation::size),
                                  member(Field::origin, &LiveAllocation::origin),
                                  member(Field::stack, &LiveAllocation::stack),
                                  member(Field::pending, &LiveAllocation::pending)};
};
template <>
struct MembersOf<LiveSegment> {
  using Field = KeyframeRowsField;
  static constexpr std::tuple all{
      member(Field::segment_address, &LiveSegment::address), member(Field::segment_size, &LiveSegment::size),
      member(Field::segment_origin, &LiveSegment::origin), member(Field::segment_mapped, &LiveSegment::mapped)};
};

// The end of a trace.

struct FooterMessage {
  struct Packet {
    PacketField kind;
    std::uint64_t size = 0;
    std::uint64_t first_event = 0;
    Nanoseconds first_time{};
  };
  std::vector<Packet> packets;  // columns of the message
  std::uint64_t event_count = 0;
  std::uint64_t allocation_count = 0;
};
template <>
struct MembersOf<FooterMessage::Packet> {
  using Packet = FooterMessage::Packet;
  static constexpr std::tuple all{
      member(FooterField::packet_field, &Packet::kind), member(FooterField::packet_size, &Packet::size),
      member(FooterField::first_event, &Packet::first_event), member(FooterField::first_time_ns, &Packet::first_time)};
};
template <>
struct MembersOf<FooterMessage> {
  static constexpr std::tuple all{always(FooterField::event_count, &FooterMessage::event_count),
                                  always(FooterField::allocation_count, &FooterMessage::allocation_count)};
};

}  // namespace wire
}  // namespace memreel
