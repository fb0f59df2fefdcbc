#include "formats/reader/footer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <protozero/exception.hpp>
#include <span>
#include <utility>

#include "formats/reader/packet_stream.h"

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

}  // namespace memreel
