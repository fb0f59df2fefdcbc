// Reads a ByteStream item by item: the fast path is a comparison and a load.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "formats/import/source/byte_stream.h"

namespace memreel {

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

}  // namespace memreel
