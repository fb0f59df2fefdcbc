// SPDX-License-Identifier: Apache-2.0
// The bytes of a foreign file: in blocks, compressed or not, read ahead by a thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct ImportProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;  // of the file as stored, compressed or not
};

/// A sequence of bytes that can be read once.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// Fills `into` from its start and returns the number of bytes: fewer than requested only at the end, and 0 from then
  /// on. Errors: the file can't be read, or its compressed data is damaged or truncated.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  /// How many bytes of the stored file have been consumed so far.
  virtual std::uint64_t stored_position() const = 0;
};

/// A transparently decompressed file: xz, gzip and zstd are recognised by their first bytes; members may be
/// concatenated, as these formats' tools allow.
struct OpenedFile {
  std::unique_ptr<ByteStream> bytes;
  std::uint64_t stored_size = 0;
  bool compressed = false;
  std::string where;           // for Error::where: notes when offsets are those of the uncompressed data
  Bytes memory_limit;          // for what is built from it
  std::filesystem::path file;  // for formats read by offset; empty: `bytes` do not come directly from a file
};

/// `memory_limit`: maximum decompressed size in bytes; default (0): 64 times the file's size, but at least 256 MiB and
/// at most a quarter of the machine's memory.
Result<OpenedFile> open_bytes(const std::filesystem::path& file, Bytes memory_limit = {});

/// A stream failure looks like the end of data; the error is in failure().
class ByteCursor {
 public:
  /// `on_progress` may be empty.
  ByteCursor(OpenedFile file, std::function<void(ImportProgress)> on_progress)
      : file_(std::move(file)), on_progress_(std::move(on_progress)), buffer_(capacity) {}

  /// Up to `count` (at most 64 Ki) of the next bytes without consuming them; fewer only at the end.
  std::span<const std::byte> peek(std::size_t count) {
    ensure(count);
    return std::span(buffer_).subspan(at_, std::min(count, end_ - at_));
  }

  /// The next bytes that are already in memory: none at the beginning and at the end.
  std::span<const std::byte> at_hand() const { return std::span(buffer_).subspan(at_, end_ - at_); }

  /// Reads a little-endian number; false when the data ends before its last byte.
  template <class Number>
  bool read(Number& into) {
    static_assert(std::is_integral_v<Number> && std::endian::native == std::endian::little);
    if (!ensure(sizeof into)) return false;
    std::memcpy(&into, &buffer_[at_], sizeof into);
    at_ += sizeof into;
    return true;
  }

  /// Consumes at least one and at most `most` contiguous bytes; empty at the end. Valid until the next call.
  std::span<const std::byte> take(std::uint64_t most) {
    if (at_ == end_ && !refill()) return {};
    const auto piece = std::span(buffer_).subspan(at_, std::min<std::uint64_t>(most, end_ - at_));
    at_ += piece.size();
    return piece;
  }

  /// The file's stored size, compressed or not.
  std::uint64_t stored_size() const { return file_.stored_size; }
  /// Offset of the next byte in the uncompressed data.
  std::uint64_t position() const { return before_ + at_; }
  /// The file with these bytes at the same offsets; empty if they come from elsewhere, or are compressed.
  const std::filesystem::path& file() const { return file_.file; }
  /// For what is built from the bytes.
  Bytes memory_limit() const { return file_.memory_limit; }
  const std::string& where() const { return file_.where; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  static constexpr std::size_t capacity = std::size_t{1} << 18U;

  bool ensure(std::size_t count) { return end_ - at_ >= count || (refill() && end_ - at_ >= count); }
  bool refill();

  OpenedFile file_;
  std::function<void(ImportProgress)> on_progress_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::uint64_t before_ = 0;  // offset of the buffer's first byte
  std::uint64_t reported_ = 0;
  std::optional<Error> failure_;
};

/// The bytes of `stream`, read on its own thread up to a mebibyte ahead. Errors appear at their position in the
/// sequence. `stored_position` counts what was consumed here, not what was read ahead.
std::unique_ptr<ByteStream> read_ahead(std::unique_ptr<ByteStream> stream);

enum class Compression : std::uint8_t { none, xz, gzip, zstd };

/// Recognised by the three formats' magic numbers.
Compression compression_of(std::span<const std::byte> beginning);

/// The decompressed content of `stored`, which errors call `name`. Memory: one buffer plus the decoder's own, at most
/// 256 MiB. `compression` is not none. Reading fails beyond `most` bytes.
std::unique_ptr<ByteStream> decompress(Compression compression, std::unique_ptr<ByteStream> stored, std::string name,
                                       Bytes most);

}  // namespace memreel
