// SPDX-License-Identifier: Apache-2.0
// The layout of packets in a file.
//
//   offset  0      1            5           6..13        14          15..18   19
//           0A     length       09          "MEMREEL\n"  15          CRC-32C  body
//           tag    4-byte       tag of      sync word    tag of      little
//                  varint       sync                     crc32c      endian
//
// This is ordinary protobuf (Trace.packet with its length, Packet.sync, Packet.crc32c), but with every field at a fixed
// position: after damage, a reader finds the next packet by its sync word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memreel::wire {

// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of every packet.

/// Uses the processor's CRC instruction if available (about 10 bytes per nanosecond), else tables.
std::uint32_t crc32c(std::string_view bytes);

/// Uses tables, on any machine.
std::uint32_t crc32c_portable(std::string_view bytes);

inline constexpr std::size_t head_size = 19;
inline constexpr std::string_view sync_word{"\x09MEMREEL\n", 9};  // with its tag
inline constexpr std::size_t sync_offset = 5;

/// Larger sizes are treated as damage before anything is allocated.
inline constexpr std::size_t max_packet_size = std::size_t{64} << 20U;
inline constexpr std::size_t max_content_size = std::size_t{16} << 20U;  // of a zstd frame, uncompressed
inline constexpr std::size_t max_columns_size = std::size_t{4} << 20U;
inline constexpr std::size_t max_events_per_block = 65536;

/// The most that the rows of all Tables packets in a file can unpack to. They stay in memory, which this keeps in
/// proportion to the file's size.
constexpr std::uint64_t max_rows_size(std::uint64_t compressed_size) {
  return (std::uint64_t{64} << 20U) + 256 * compressed_size;
}

struct PacketHead {
  std::size_t packet_size = 0;  // head and body
  std::uint32_t crc = 0;        // of the body

  std::size_t body_size() const { return packet_size - head_size; }
};

/// The head at the start of `bytes`; none if it is not well-formed.
std::optional<PacketHead> parse_head(std::string_view bytes);

/// Whether `bytes`, shorter than a head, may be the start of one.
bool may_become_head(std::string_view bytes);

/// An empty packet: a head for seal_packet() to fill in; append the body to it.
std::string open_packet();

/// Writes length and CRC into the head. The packet must not be larger than max_packet_size.
void seal_packet(std::string& packet);

}  // namespace memreel::wire
