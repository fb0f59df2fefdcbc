#include "formats/wire/framing.h"

#include <algorithm>
#include <cstring>

#include "formats/wire/crc32c.h"

namespace memreel::wire {
namespace {

constexpr char packet_tag = 0x0A;
constexpr char crc_tag = 0x15;
constexpr std::size_t length_offset = 1;
constexpr std::size_t length_size = 4;
constexpr std::size_t crc_tag_offset = sync_offset + sync_word.size();
constexpr std::size_t crc_offset = crc_tag_offset + 1;
constexpr std::size_t before_length_counts = length_offset + length_size;
static_assert(crc_offset + sizeof(std::uint32_t) == head_size);

/// The first three bytes of a length have the continuation bit, the fourth does not.
bool is_length_byte(std::size_t i, char byte) {
  const bool more = (static_cast<unsigned char>(byte) & 0x80U) != 0;
  return more == (i + 1 < length_size);
}

}  // namespace

bool may_become_head(std::string_view bytes) {
  for (std::size_t i = 0; i < std::min(bytes.size(), crc_offset); ++i) {
    const bool fits = i < length_offset    ? bytes[i] == packet_tag
                      : i < sync_offset    ? is_length_byte(i - length_offset, bytes[i])
                      : i < crc_tag_offset ? bytes[i] == sync_word[i - sync_offset]
                                           : bytes[i] == crc_tag;
    if (!fits) return false;
  }
  return true;
}

std::optional<PacketHead> parse_head(std::string_view bytes) {
  if (bytes.size() < head_size || !may_become_head(bytes)) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_size; ++i)
    length |= (static_cast<unsigned char>(bytes[length_offset + i]) & std::size_t{0x7F}) << (7 * i);
  PacketHead head{.packet_size = before_length_counts + length};
  if (head.packet_size < head_size || head.packet_size > max_packet_size) return std::nullopt;
  std::memcpy(&head.crc, bytes.data() + crc_offset, sizeof head.crc);
  return head;
}

std::string open_packet() {
  std::string packet(head_size, '\0');
  packet[0] = packet_tag;
  std::copy(sync_word.begin(), sync_word.end(), packet.begin() + sync_offset);
  packet[crc_tag_offset] = crc_tag;
  return packet;
}

void seal_packet(std::string& packet) {
  const std::size_t length = packet.size() - before_length_counts;
  for (std::size_t i = 0; i < length_size; ++i) {
    const std::size_t more = i + 1 < length_size ? 0x80 : 0;
    packet[length_offset + i] = static_cast<char>(((length >> (7 * i)) & 0x7FU) | more);
  }
  const std::uint32_t crc = crc32c(std::string_view(packet).substr(head_size));
  std::memcpy(packet.data() + crc_offset, &crc, sizeof crc);
}

}  // namespace memreel::wire
