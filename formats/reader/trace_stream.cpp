// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/trace_stream.h"

#include <algorithm>
#include <protozero/exception.hpp>
#include <utility>

#include "formats/model/files.h"

namespace memreel {
namespace {

using wire::PacketField;

Losses operator+(const Losses& a, const Losses& b) {
  return {.ring_full = a.ring_full + b.ring_full,
          .stack_table_full = a.stack_table_full + b.stack_table_full,
          .hook_refused = a.hook_refused + b.hook_refused,
          .unknown_actions = a.unknown_actions + b.unknown_actions,
          .unmatched_frees = a.unmatched_frees + b.unmatched_frees,
          .preexisting_allocations = a.preexisting_allocations + b.preexisting_allocations,
          .began_late = a.began_late || b.began_late,
          .history_overflowed = a.history_overflowed || b.history_overflowed,
          .skipped = a.skipped | b.skipped,
          .folded_events = a.folded_events + b.folded_events,
          .folded_until = std::max(a.folded_until, b.folded_until),
          .folded_left_out = a.folded_left_out + b.folded_left_out};
}

/// Twice what a flight recorder writes.
constexpr std::size_t most_folded_rows = std::size_t{1} << 21U;

/// Recorded events take some bytes each, and a tenth of one if a program repeats itself.
constexpr std::uint64_t most_events(std::uint64_t file_size) { return (std::uint64_t{4} << 20U) + 16 * file_size; }

}  // namespace

Result<TraceStream> TraceStream::open(std::shared_ptr<ByteFile> file, const std::string& name, Bytes memory_limit) {
  if (auto checked = check_beginning(*file, name); !checked) return std::move(checked).error();
  TraceStream stream(std::move(file), name, memory_limit);
  if (auto read = stream.read_beginning(); !read) return std::move(read).error();
  return stream;
}

Result<std::optional<RawPacket>> TraceStream::next_packet() {
  auto packet = packets_.next();
  report_.damaged_packets = packets_.damaged_packets() + undecodable_packets_;
  report_.damaged_bytes = packets_.damaged_bytes() + undecodable_bytes_;
  report_.truncated_bytes = packets_.truncated_bytes();
  return packet;
}

Result<void> TraceStream::read_beginning() {
  EventColumns none;
  for (;;) {
    auto packet = next_packet();
    if (!packet) return std::move(packet).error();
    if (!*packet) return {};
    try {
      const auto body = decode_body((*packet)->body);
      if (body && body->kind == PacketField::events) {
        packets_.seek((*packet)->offset);
        return {};
      }
    } catch (const protozero::exception&) {
      // handle() counts it.
    }
    handle(**packet, none);
    if (tables_.over_limit()) return over_limit();
  }
}

Error TraceStream::over_limit() const {
  return over_memory_limit(name_, "holds tables that need more than", memory_limit());
}

Result<std::optional<BlockSummary>> TraceStream::next(EventColumns& events) {
  for (;;) {
    auto packet = next_packet();
    if (!packet) return std::move(packet).error();
    if (!*packet) return std::optional<BlockSummary>{};
    const std::size_t before = events.count();
    auto block = handle(**packet, events);
    events_read_ += events.count() - before;
    if (tables_.over_limit()) return over_limit();
    if (events_read_ > most_events(packets_.file_size()))
      return Error{.what = "holds more events than a recording of its size can",
                   .where = name_,
                   .remedy = "it was crafted to take long to read: there is nothing in it to analyse"};
    if (block) return block;
  }
}

std::optional<BlockSummary> TraceStream::handle(const RawPacket& packet, EventColumns& events) {
  report_.has_footer = false;
  try {
    const auto body = decode_body(packet.body);
    if (!body) {
      ++report_.unknown_packets;
      return std::nullopt;
    }
    std::optional<BlockSummary> block;
    bool sound = true;
    switch (body->kind) {
      case PacketField::header:
        begin_trace(decode_header(body->message));
        break;
      case PacketField::tables:
        tables_.set_memory_limit(memory_limit());
        sound = tables_.add(body->message, decoder_.decompressor());
        count_cut_stacks();
        report_.missing_rows = tables_.missing_rows();
        break;
      case PacketField::events:
        block = read_block(body->message, events);
        sound = block.has_value();
        break;
      case PacketField::keyframe:
        break;  // only for readers that skip what precedes it
      case PacketField::losses:
        set_losses(decode_losses(body->message));
        break;
      case PacketField::folded:
        sound = set_folded(body->message);
        break;
      case PacketField::initial_heap:
        sound = add_initial_heap(body->message);
        break;
      case PacketField::python_holders:
        sound = set_python_holders(body->message);
        break;
      case PacketField::footer:
        if (const auto footer = decode_footer(body->message)) {
          expect_event(footer->event_count);
          report_.has_footer = true;
        } else {
          sound = false;
        }
        break;
    }
    if (sound) return block;
  } catch (const protozero::exception&) {
    // Damage other than a wrong CRC: handled below.
  }
  ++undecodable_packets_;
  undecodable_bytes_ += packet.size;
  ++report_.damaged_packets;
  report_.damaged_bytes += packet.size;
  return std::nullopt;
}

void TraceStream::begin_trace(const Header& header) {
  if (!has_header_) header_ = header;
  has_header_ = true;
  tables_.begin_trace();
  allocations_.begin_trace();
  events_before_ += std::exchange(next_event_, 0);
  losses_before_ = losses_;
}

void TraceStream::set_losses(const Losses& losses) {
  losses_ = losses_before_ + losses;
  count_cut_stacks();
}

bool TraceStream::set_folded(std::string_view message) {
  auto folded = decode_folded(message, decoder_.decompressor());
  if (!folded) return false;
  const RowSpace& rows = tables_.rows();
  for (FoldedRow& row : folded->rows) {
    if (!rows.has(wire::Table::heaps, index(row.heap)) || !rows.has(wire::Table::stacks, index(row.stack)))
      return false;
    row.heap = HeapId{rows(wire::Table::heaps, index(row.heap))};
    row.stack = StackId{rows(wire::Table::stacks, index(row.stack))};
  }
  if (folded_.empty()) {
    folded_ = *std::move(folded);
  } else if (events_before_ == 0 && folded->begin == folded_.begin && folded->interval == folded_.interval &&
             folded->until == folded_.until && folded_.rows.size() < most_folded_rows) {
    folded_.rows.insert(folded_.rows.end(), folded->rows.begin(), folded->rows.end());
  }
  return true;
}

bool TraceStream::add_initial_heap(std::string_view message) {
  auto initial = decode_initial_heap(message, decoder_.decompressor());
  const RowSpace& rows = tables_.rows();
  if (!initial || !rows.has(wire::Table::heaps, index(initial->heap))) return false;
  initial->heap = HeapId{rows(wire::Table::heaps, index(initial->heap))};
  for (InitialSegment& segment : initial->segments) {
    if (!rows.has(wire::Table::origins, index(segment.origin))) return false;
    segment.origin = OriginId{rows(wire::Table::origins, index(segment.origin))};
  }
  // One per heap: memory is then bounded by the tables.
  if (std::ranges::find(initial_heaps_, initial->heap, &InitialHeap::heap) == initial_heaps_.end())
    initial_heaps_.push_back(*std::move(initial));
  return true;
}

bool TraceStream::set_python_holders(std::string_view message) {
  auto holders = decode_python_holders(message, decoder_.decompressor());
  if (!holders) return false;
  python_holders_ = *std::move(holders);
  return true;
}

void TraceStream::count_cut_stacks() {
  all_losses_ = losses_;
  all_losses_.stack_table_full += tables_.cut_stacks();
}

void TraceStream::expect_event(std::uint64_t event) {
  if (event <= next_event_) return;
  report_.missing_events += event - next_event_;
  next_event_ = event;
}

std::optional<BlockSummary> TraceStream::read_block(std::string_view message, EventColumns& events) {
  const auto block = decode_block(message);
  // A block that begins before the current position is misplaced, for instance written twice.
  if (!block || block->first_event < next_event_ || block->first_allocation < allocations_.next_ordinal() ||
      !tables_.fill_up_to(block->rows_before))
    return std::nullopt;
  report_.missing_rows = tables_.missing_rows();
  const RowSpace& rows = tables_.rows();
  const auto heap_exists = [&](const HeapState& state) { return rows.has(wire::Table::heaps, index(state.heap)); };
  if (!std::ranges::all_of(block->state_after, heap_exists)) return std::nullopt;

  const std::size_t begin = events.count();
  const DecodedBlock decoded = decoder_.decode(*block, rows, allocations_, events);
  if (!decoded.sound) return std::nullopt;
  if (decoded.unknown_events != 0) remove_unknown(events, begin);
  report_.unknown_events += decoded.unknown_events;
  report_.orphaned_frees += decoded.orphaned_frees;
  expect_event(block->first_event);

  BlockSummary summary{.first_event = events_before_ + block->first_event,
                       .first_allocation = allocations_.next_id(),
                       .state_after = block->state_after};
  for (HeapState& state : summary.state_after) state.heap = HeapId{rows(wire::Table::heaps, index(state.heap))};
  allocations_.add(block->first_allocation, block->allocation_count);
  next_event_ = block->end_event();
  return summary;
}

}  // namespace memreel
