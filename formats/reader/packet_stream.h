// SPDX-License-Identifier: Apache-2.0
// Finds the packets of a file: in sequence, skipping damage, or by the footer of a complete trace.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// A complete trace inside a file, as its footer describes it.
struct FooterSpan {
  FooterMessage footer;  // its packets are contiguous from `begin` to `footer_offset`
  std::uint64_t begin = 0;
  std::uint64_t footer_offset = 0;
};

/// The trace that ends at `end`. None if it is incomplete, or its footer is damaged or inconsistent.
Result<std::optional<FooterSpan>> read_footer(ByteFile& file, std::uint64_t end);

/// A packet with a correct CRC.
struct RawPacket {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // head included
  std::string_view body;   // valid until the stream is used again
};

/// Reads packets in order. If there is none, or its CRC is wrong, continues at the next sync word.
class PacketStream {
 public:
  static constexpr std::uint64_t whole_file = std::numeric_limits<std::uint64_t>::max();

  /// `end`: read only up to it.
  explicit PacketStream(std::shared_ptr<ByteFile> file, std::uint64_t offset = 0, std::uint64_t end = whole_file)
      : file_(std::move(file)), offset_(offset), end_(end) {}

  /// None at the current end of the file. The next call retries an incomplete packet there.
  Result<std::optional<RawPacket>> next();

  /// Continues at `offset`, where a packet is known to begin.
  void seek(std::uint64_t offset) { offset_ = offset; }

  std::uint64_t file_size() const { return file_->size(); }
  std::uint64_t damaged_packets() const { return damaged_packets_; }
  std::uint64_t damaged_bytes() const { return damaged_bytes_; }
  std::uint64_t truncated_bytes() const { return truncated_bytes_; }  // of the incomplete packet at the end

 private:
  std::uint64_t end();
  /// `size` bytes at `offset`, or fewer at the end. Valid until the next call.
  Result<std::string_view> view(std::uint64_t offset, std::size_t size);
  /// The offset of the first head at or after `from`, or of a possible partial one at the end; else the end.
  Result<std::uint64_t> find_head(std::uint64_t from);
  void skip_to(std::uint64_t offset);

  std::shared_ptr<ByteFile> file_;
  std::uint64_t offset_;
  std::uint64_t end_;
  std::string buffer_;
  std::uint64_t buffer_offset_ = 0;  // of its first byte in the file
  std::uint64_t damaged_packets_ = 0;
  std::uint64_t damaged_bytes_ = 0;
  std::uint64_t truncated_bytes_ = 0;
  std::uint64_t failed_crc_bytes_ = 0;
};

/// Fails if the file does not begin like a trace, damaged or not.
Result<void> check_beginning(ByteFile& file, const std::string& name);

/// The packet that begins at `offset` and takes at most `size` bytes; none if it is damaged. Its body is in `buffer`.
Result<std::optional<RawPacket>> read_packet(ByteFile& file, std::uint64_t offset, std::uint64_t size,
                                             std::string& buffer);

}  // namespace memreel
