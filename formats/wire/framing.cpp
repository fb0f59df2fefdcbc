// SPDX-License-Identifier: Apache-2.0
#include "formats/wire/framing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace memreel::wire {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78;  // bits reversed

using CrcTable = std::array<std::uint32_t, 256>;

/// tables[k][b]: what byte b contributes when k more bytes follow it, so that eight bytes take eight independent
/// look-ups instead of a chain of them.
constexpr std::array<CrcTable, 8> make_tables() {
  std::array<CrcTable, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8U) ^ tables[0][previous & 0xFFU];
    }
  }
  return tables;
}

constexpr std::array<CrcTable, 8> tables = make_tables();

std::uint64_t load_little_endian(const char* from) {
  static_assert(std::endian::native == std::endian::little, "the trace is written in the machine's byte order");
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::string_view bytes) {
  std::uint64_t crc = 0xFFFF'FFFF;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) crc = _mm_crc32_u64(crc, load_little_endian(bytes.data()));
  auto tail = static_cast<std::uint32_t>(crc);
  for (const char byte : bytes) tail = _mm_crc32_u8(tail, static_cast<unsigned char>(byte));
  return ~tail;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::string_view bytes) {
  std::uint32_t crc = 0xFFFF'FFFF;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    const std::uint64_t word = load_little_endian(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xFFU];
  }
  for (const char byte : bytes) crc = (crc >> 8U) ^ tables[0][(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

std::uint32_t crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_sse42(bytes);
#endif
  return crc32c_portable(bytes);
}

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
