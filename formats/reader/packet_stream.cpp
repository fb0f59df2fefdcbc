// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/packet_stream.h"

#include <protozero/exception.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "formats/wire/framing.h"

namespace memreel {
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
