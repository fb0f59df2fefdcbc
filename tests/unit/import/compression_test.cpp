// SPDX-License-Identifier: Apache-2.0
// Compressed files: whole, several in one, truncated and damaged.
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <functional>

#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

std::string xz(const std::string& text) {
  std::string out(text.size() + 1024, '\0');
  std::size_t size = 0;
  lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                          reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size());
  out.resize(size);
  return out;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1024, '\0');
  std::string input = text;  // old versions of zlib are not const-correct
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

struct Format {
  std::string name;
  std::function<std::string(const std::string&)> compress;
};

class Compressed : public ::testing::TestWithParam<Format> {
 protected:
  /// Large enough for several buffers and blocks.
  static std::string snapshot_bytes() {
    std::vector<Document> entries;
    for (std::uint64_t i = 0; i < 8000; ++i)
      entries.push_back(entry("alloc", i * 512, (i * 2654435761U) % 100000, static_cast<std::int64_t>(i * i)));
    return pickled(snapshot({}, entries));
  }
};

TEST_P(Compressed, IsReadLikeThePlainFile) {
  const std::string plain = snapshot_bytes();
  const Result<Trace> expected = import_bytes(plain);
  ASSERT_TRUE(expected) << expected.error().message();
  const Result<Trace> trace = import_bytes(GetParam().compress(plain));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->events, expected->events);
}

TEST_P(Compressed, MembersFollowOneAnother) {
  const std::string plain = snapshot_bytes();
  const std::size_t half = plain.size() / 2;
  const Result<Trace> trace =
      import_bytes(GetParam().compress(plain.substr(0, half)) + GetParam().compress(plain.substr(half)));
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->events.count(), 8000U);
}

TEST_P(Compressed, CutOffFilesSayWhere) {
  const std::string whole = GetParam().compress(snapshot_bytes());
  for (std::size_t size = 20; size + 20 < whole.size(); size += whole.size() / 23) {
    const std::string message = refusal(whole.substr(0, size));
    EXPECT_NE(message.find(GetParam().name + " data ends early"), std::string::npos) << message;
    EXPECT_NE(message.find("byte " + std::to_string(size) + ":"), std::string::npos) << message;
  }
}

TEST_P(Compressed, DamagedFilesAreRefused) {
  const std::string whole = GetParam().compress(snapshot_bytes());
  for (std::size_t at = 16; at < whole.size(); at += whole.size() / 37) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const Result<Trace> trace = import_bytes(damaged);  // may also decode to something other than a snapshot
    if (!trace) {
      EXPECT_EQ(trace.error().message().find('\n'), std::string::npos);
    }
  }
}

TEST_P(Compressed, ATraceIsOpenedToo) {
  const TemporaryFile plain(snapshot_bytes());
  std::vector<std::byte> trace;
  ASSERT_TRUE(import_file(plain.path(), memory_sink(trace)));
  const TemporaryFile file(GetParam().compress({reinterpret_cast<const char*>(trace.data()), trace.size()}));
  const Result<Trace> opened = open_any(file.path());
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(opened->events, open_any(plain.path())->events);
}

INSTANTIATE_TEST_SUITE_P(All, Compressed,
                         ::testing::Values(Format{"xz", xz}, Format{"gzip", gzip}, Format{"zstd", zstd}),
                         [](const auto& test) { return test.param.name; });

TEST(Compression, GzipMayBePaddedWithZeros) {
  const Result<Trace> trace = import_bytes(gzip(pickled(snapshot({}, {}))) + std::string(100, '\0'));
  EXPECT_TRUE(trace) << trace.error().message();
}

TEST(Compression, OffsetsAreThoseOfTheContent) {
  const std::string message = refusal(gzip("\x80\x04}c"));
  EXPECT_NE(message.find("(uncompressed): byte 3: refused opcode GLOBAL"), std::string::npos) << message;
}

}  // namespace
}  // namespace memreel::test
