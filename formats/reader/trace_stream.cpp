// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/trace_stream.h"

#include <protozero/exception.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "formats/wire/framing.h"

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
          .folded_left_out = a.folded_left_out + b.folded_left_out,
          .unsized_failures = a.unsized_failures + b.unsized_failures};
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
  if (!has_header_)
    header_ = header;
  else
    report_.later.push_back({.first_event = static_cast<std::uint32_t>(events_read_),
                             .first_heap = HeapId{static_cast<std::uint32_t>(tables().heaps.size())}});
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

namespace {

/// None if the packets don't fit before the footer, or event numbers decrease.
std::optional<FooterSpan> place(FooterMessage footer, std::uint64_t footer_offset) {
  std::uint64_t total = 0, event = 0;
  for (const auto& packet : footer.packets) {
    if (packet.size > footer_offset - total || packet.first_event < event) return std::nullopt;
    total += packet.size;
    event = packet.first_event;
  }
  if (event > footer.event_count || footer.packets.empty() || footer.packets.front().kind != wire::PacketField::header)
    return std::nullopt;
  return FooterSpan{.footer = std::move(footer), .begin = footer_offset - total, .footer_offset = footer_offset};
}

}  // namespace

Result<std::optional<FooterSpan>> read_footer(ByteFile& file, std::uint64_t end) {
  constexpr std::optional<FooterSpan> none;
  std::array<std::byte, wire::footer_size_width> tail{};
  if (end < tail.size()) return none;
  auto got = file.read(end - tail.size(), tail);
  if (!got) return std::move(got).error();
  std::uint32_t size = 0;
  std::memcpy(&size, tail.data(), sizeof size);
  if (*got != tail.size() || size > end) return none;

  std::string buffer;
  auto packet = read_packet(file, end - size, size, buffer);
  if (!packet) return std::move(packet).error();
  if (!*packet) return none;
  try {
    const auto body = decode_body((*packet)->body);
    if (!body || body->kind != wire::PacketField::footer) return none;
    auto footer = decode_footer(body->message);
    if (!footer) return none;
    return place(*std::move(footer), end - size);
  } catch (const protozero::exception&) {
    return none;
  }
}

namespace {

constexpr std::size_t read_size = std::size_t{256} << 10U;

/// Damage may have hit a length, so the search for the next head begins inside the failed packet. A crafted file can
/// nest packets endlessly; after this many bytes and four times the file, lengths are trusted.
constexpr std::uint64_t failed_crc_budget = std::uint64_t{64} << 20U;

constexpr std::size_t search_for_beginning = std::size_t{1} << 20U;

}  // namespace

bool looks_like_trace(std::span<const std::byte> beginning) {
  std::string head(std::min(beginning.size(), wire::head_size), '\0');
  std::ranges::copy(beginning.first(head.size()), std::as_writable_bytes(std::span(head)).begin());
  return head.size() >= wire::sync_offset + wire::sync_word.size() && wire::may_become_head(head);
}

Result<void> check_beginning(ByteFile& file, const std::string& name) {
  std::string beginning(wire::head_size, '\0');
  auto got = file.read(0, std::as_writable_bytes(std::span(beginning)));
  if (!got) return std::move(got).error();
  if (*got == 0) return Error{.what = "the file is empty", .where = name, .remedy = "nothing was recorded in it"};
  if (wire::may_become_head(std::string_view(beginning).substr(0, *got))) return {};

  beginning.resize(std::min<std::uint64_t>(search_for_beginning, file.size()));
  got = file.read(0, std::as_writable_bytes(std::span(beginning)));
  if (!got) return std::move(got).error();
  beginning.resize(*got);
  for (std::size_t at = 0; (at = beginning.find(wire::sync_word, at)) != std::string::npos; ++at)
    if (at >= wire::sync_offset && wire::parse_head(std::string_view(beginning).substr(at - wire::sync_offset)))
      return {};
  return Error{.what = "is not a memreel trace",
               .where = name,
               .offset = 0,
               .remedy = "convert recordings of other tools with `memreel import`"};
}

std::uint64_t PacketStream::end() { return std::min(file_->size(), end_); }

Result<std::string_view> PacketStream::view(std::uint64_t offset, std::size_t size) {
  if (offset < buffer_offset_ || offset > buffer_offset_ + buffer_.size()) {
    buffer_.clear();
    buffer_offset_ = offset;
  }
  auto skip = static_cast<std::size_t>(offset - buffer_offset_);
  if (buffer_.size() - skip < size) {
    buffer_.erase(0, skip);
    buffer_offset_ = offset;
    skip = 0;
    const std::size_t kept = buffer_.size();
    const std::uint64_t left = end() > offset + kept ? end() - offset - kept : 0;
    buffer_.resize(kept + static_cast<std::size_t>(std::min<std::uint64_t>(left, std::max(size - kept, read_size))));
    auto got = file_->read(offset + kept, std::as_writable_bytes(std::span(buffer_).subspan(kept)));
    if (!got) return std::move(got).error();
    buffer_.resize(kept + *got);
  }
  return std::string_view(buffer_).substr(skip, size);
}

Result<std::uint64_t> PacketStream::find_head(std::uint64_t from) {
  for (std::uint64_t at = from;;) {
    auto bytes = view(at, read_size);
    if (!bytes) return std::move(bytes).error();
    for (std::size_t found = 0; (found = bytes->find(wire::sync_word, found)) != std::string_view::npos; ++found)
      if (found >= wire::sync_offset && wire::parse_head(bytes->substr(found - wire::sync_offset)))
        return at + found - wire::sync_offset;
    if (bytes->size() == read_size) {
      at += read_size - wire::head_size + 1;  // a head across the border is complete in the next piece
      continue;
    }
    const std::size_t tail = std::min(bytes->size(), wire::head_size - 1);
    for (std::size_t i = bytes->size() - tail; i < bytes->size(); ++i)
      if (wire::may_become_head(bytes->substr(i))) return at + i;
    return at + bytes->size();
  }
}

void PacketStream::skip_to(std::uint64_t offset) {
  ++damaged_packets_;
  damaged_bytes_ += offset - offset_;
  offset_ = offset;
}

Result<std::optional<RawPacket>> PacketStream::next() {
  for (;;) {
    truncated_bytes_ = 0;
    auto bytes = view(offset_, wire::head_size);
    if (!bytes) return std::move(bytes).error();
    if (bytes->empty()) return std::optional<RawPacket>{};
    if (bytes->size() < wire::head_size && wire::may_become_head(*bytes)) {
      truncated_bytes_ = bytes->size();
      return std::optional<RawPacket>{};
    }
    const auto head = wire::parse_head(*bytes);
    const std::uint64_t file_end = end();
    const bool whole = head && head->packet_size <= file_end - offset_;
    if (whole) {
      bytes = view(offset_, head->packet_size);
      if (!bytes) return std::move(bytes).error();
      if (bytes->size() < head->packet_size) {  // the file shrank meanwhile
        truncated_bytes_ = bytes->size();
        return std::optional<RawPacket>{};
      }
      const std::string_view body = bytes->substr(wire::head_size);
      if (wire::crc32c(body) == head->crc) {
        const RawPacket packet{.offset = offset_, .size = head->packet_size, .body = body};
        offset_ += head->packet_size;
        return std::optional(packet);
      }
      failed_crc_bytes_ += head->packet_size;
      if (failed_crc_bytes_ > failed_crc_budget + 4 * file_end) {
        skip_to(offset_ + head->packet_size);
        continue;
      }
    }
    auto next_head = find_head(offset_ + 1);
    if (!next_head) return std::move(next_head).error();
    if (head && !whole && *next_head + wire::head_size > file_end) {  // it may have grown since
      truncated_bytes_ = file_end - offset_;
      return std::optional<RawPacket>{};
    }
    skip_to(*next_head);
  }
}

Result<std::optional<RawPacket>> read_packet(ByteFile& file, std::uint64_t offset, std::uint64_t size,
                                             std::string& buffer) {
  if (size < wire::head_size || size > wire::max_packet_size) return std::optional<RawPacket>{};
  buffer.resize(static_cast<std::size_t>(size));
  auto got = file.read(offset, std::as_writable_bytes(std::span(buffer)));
  if (!got) return std::move(got).error();
  const std::string_view bytes = std::string_view(buffer).substr(0, *got);
  const auto head = wire::parse_head(bytes);
  if (!head || head->packet_size > bytes.size()) return std::optional<RawPacket>{};
  const std::string_view body = bytes.substr(wire::head_size, head->body_size());
  if (wire::crc32c(body) != head->crc) return std::optional<RawPacket>{};
  return std::optional(RawPacket{.offset = offset, .size = size, .body = body});
}

}  // namespace memreel
