// SPDX-License-Identifier: Apache-2.0
// The building blocks of the wire format.
#include <gtest/gtest.h>

#include <protozero/varint.hpp>
#include <string>
#include <vector>

#include "formats/wire/column.h"
#include "formats/wire/framing.h"
#include "formats/wire/zstd.h"
#include "tests/bench/synthetic.h"

namespace memreel::wire {
namespace {

TEST(Crc32c, KnownValues) {
  // RFC 3720, appendix B.4.
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<char>(i);
  for (const auto crc : {crc32c, crc32c_portable}) {
    EXPECT_EQ(crc(""), 0U);
    EXPECT_EQ(crc("123456789"), 0xE3069283U);
    EXPECT_EQ(crc(std::string(32, '\0')), 0x8A9136AAU);
    EXPECT_EQ(crc(std::string(32, '\xFF')), 0x62A8AB43U);
    EXPECT_EQ(crc(ascending), 0x46DD794EU);
  }
}

TEST(Crc32c, InstructionAndTablesAgree) {
  synthetic::Random random(1);
  std::string bytes(1000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = std::string_view(bytes).substr(size % 9, size);
    ASSERT_EQ(crc32c(part), crc32c_portable(part)) << size;
  }
}

/// A copy of `column` with readable bytes behind it, as the reader has.
std::vector<std::uint64_t> decode(std::string_view column, std::size_t count, bool& sound) {
  std::string bytes(column);
  bytes.append(column_padding, '\x7F');
  std::vector<std::uint64_t> values(count, 12345);
  sound = read_column(std::string_view(bytes).substr(0, column.size()), count,
                      [&](std::size_t i, std::uint64_t value) { values[i] = value; });
  return values;
}

TEST(Column, HoldsNumbersOfEverySize) {
  synthetic::Random random(2);
  ColumnEncoder encoder;
  for (std::size_t count = 0; count < 300; ++count) {
    std::vector<std::uint64_t> values(count);
    for (auto& value : values) value = random.next() >> random.below(64);
    bool sound = false;
    EXPECT_EQ(decode(encoder.encode(std::span<const std::uint64_t>(values)), count, sound), values);
    EXPECT_TRUE(sound);
  }
}

TEST(Column, HoldsAnyNumberOfSmallNumbers) {
  ColumnEncoder encoder;
  for (std::size_t count = 2; count < 1000; ++count) {
    const std::string_view column = encoder.encode(count, [](std::size_t i) { return std::uint64_t{i % 100}; });
    ASSERT_EQ(count_varints(column), count);
  }
}

TEST(Column, EveryVarintLength) {
  ColumnEncoder encoder;
  std::vector<std::uint64_t> values{0, 1};
  for (unsigned bit = 1; bit < 64; ++bit)
    for (const std::uint64_t above : {0U, 1U, 2U}) values.push_back((std::uint64_t{1} << bit) - 1 + above);
  values.push_back(~std::uint64_t{0});
  const std::string_view column = encoder.encode(std::span<const std::uint64_t>(values));

  // protozero agrees on the encoding.
  const char* at = column.data();
  for (const std::uint64_t value : values)
    ASSERT_EQ(protozero::decode_varint(&at, column.data() + column.size()), value);
  bool sound = false;
  EXPECT_EQ(decode(column, values.size(), sound), values);
}

TEST(Column, EqualValuesTakeOneAndZerosNone) {
  ColumnEncoder encoder;
  bool sound = false;
  EXPECT_EQ(encoder.encode(1000, [](std::size_t) { return std::uint64_t{300}; }), "\xAC\x02");
  EXPECT_EQ(decode("\xAC\x02", 1000, sound), std::vector<std::uint64_t>(1000, 300));
  EXPECT_TRUE(sound);
  EXPECT_EQ(encoder.encode(1000, [](std::size_t) { return std::uint64_t{0}; }), "");
  EXPECT_EQ(decode("", 1000, sound), std::vector<std::uint64_t>(1000, 0));
  EXPECT_TRUE(sound);
}

TEST(Column, WrongNumberOfValuesIsRefused) {
  bool sound = true;
  for (const std::string_view column : {"\x01\x02\x03", "\x01\x02\x03\x04\x05", "\x01\x02\x03\x80", "\x80"}) {
    decode(column, 4, sound);
    EXPECT_FALSE(sound);
  }
}

TEST(Column, OverlongVarintsStayInside) {
  // Eleven bytes for a single value, then another: bits beyond 64 are dropped, and nothing is read past the end.
  const std::string column = std::string(15, '\xFF') + '\x01' + '\x05';
  bool sound = false;
  EXPECT_EQ(decode(column, 2, sound)[1], 5U);
  EXPECT_TRUE(sound);
}

TEST(Zigzag, BothWays) {
  EXPECT_EQ(zigzag(0), 0U);
  EXPECT_EQ(zigzag(-1), 1U);
  EXPECT_EQ(zigzag(1), 2U);
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(unzigzag(zigzag(value)), value);
}

TEST(Framing, HeadIsWhatItsCommentSays) {
  std::string packet = open_packet();
  packet += "abc";
  seal_packet(packet);
  // 17 bytes follow the length: sync, CRC and body.
  EXPECT_EQ(packet.substr(0, 15), std::string("\x0A\x91\x80\x80\x00\x09MEMREEL\n\x15", 15));
  const auto head = parse_head(packet);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->packet_size, packet.size());
  EXPECT_EQ(head->crc, crc32c("abc"));
}

TEST(Framing, EveryPrefixOfAHeadMayBecomeOne) {
  std::string packet = open_packet();
  seal_packet(packet);
  for (std::size_t size = 0; size < head_size; ++size) {
    EXPECT_TRUE(may_become_head(std::string_view(packet).substr(0, size)));
    EXPECT_FALSE(parse_head(std::string_view(packet).substr(0, size)));
  }
  // Everything but the length's value and the CRC is fixed.
  for (std::size_t i = 0; i < 15; ++i) {
    std::string damaged = packet;
    damaged[i] = static_cast<char>(damaged[i] ^ '\x80');
    EXPECT_FALSE(parse_head(damaged)) << i;
  }
}

TEST(Framing, HugeLengthIsRefused) {
  std::string packet = open_packet();
  seal_packet(packet);
  packet[4] = '\x7F';
  EXPECT_FALSE(parse_head(packet));
}

TEST(Zstd, RefusesOtherSizesThanStated) {
  Compressor compressor(3);
  Decompressor decompressor;
  const std::string content(10'000, 'x');
  const std::string frame(compressor.compress(content));
  EXPECT_EQ(decompressor.decompress(frame, content.size()), content);
  EXPECT_FALSE(decompressor.decompress(frame, content.size() - 1));
  EXPECT_FALSE(decompressor.decompress(frame, content.size() + 1));
  EXPECT_FALSE(decompressor.decompress(frame.substr(0, frame.size() - 1), content.size()));
  EXPECT_FALSE(decompressor.decompress("", 1));
  EXPECT_EQ(decompressor.decompress(frame, content.size()), content);
}

}  // namespace
}  // namespace memreel::wire
