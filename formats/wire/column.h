// SPDX-License-Identifier: Apache-2.0
// Columns: packed varints (protobuf's encoding of `repeated uint64`), where a column of equal values shrinks to one
// value and a column of zeros to nothing.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace memreel::wire {

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63U);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1U) ^ (0 - (value & 1U)));
}

/// Writes `value` to `to`, which has room for 10 bytes; returns the position after it.
inline char* put_varint(char* to, std::uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80U);
    value >>= 7U;
  }
  *to++ = static_cast<char>(value);
  return to;
}

class ColumnEncoder {
 public:
  /// Encodes `get(i)` for i in 0 .. count - 1. The result is valid until the next call; empty: leave the field out.
  template <class Get>
  std::string_view encode(std::size_t count, Get get) {
    reserve(count);
    if (count == 0) return {};
    char* end = buffer_.data();
    const std::uint64_t first = get(std::size_t{0});
    std::size_t equal = 1;
    while (equal < count && get(equal) == first) ++equal;
    if (equal == count) {
      if (first == 0) return {};
      end = put_varint(end, first);
    } else {
      for (std::size_t i = 0; i < count; ++i) end = put_varint(end, get(i));
    }
    return {buffer_.data(), static_cast<std::size_t>(end - buffer_.data())};
  }

  template <class T>
  std::string_view encode(std::span<const T> values) {
    return encode(values.size(), [values](std::size_t i) { return std::uint64_t{values[i]}; });
  }

  /// The same, but writes every value: for lists whose length is not known otherwise.
  template <class Get>
  std::string_view encode_all(std::size_t count, Get get) {
    reserve(count);
    char* end = buffer_.data();
    for (std::size_t i = 0; i < count; ++i) end = put_varint(end, get(i));
    return {buffer_.data(), static_cast<std::size_t>(end - buffer_.data())};
  }

 private:
  static constexpr std::size_t max_varint_size = 10;

  void reserve(std::size_t count) { buffer_.resize(std::max(buffer_.size(), count * max_varint_size)); }

  std::vector<char> buffer_;
};

/// Bytes after a column that must be readable while it is read.
inline constexpr std::size_t column_padding = 8;

/// How many varints end in `bytes`.
std::size_t count_varints(std::string_view bytes);

namespace detail {

/// Reads a varint of nine bytes or more.
std::uint64_t read_long_varint(const char*& from);

/// Reads the varint at `from` and advances `from`. Branchless for values below 2^56: in a column whose values randomly
/// take one or two bytes, every other branch would be mispredicted.
[[gnu::always_inline]] inline std::uint64_t read_varint(const char*& from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  const std::uint64_t last_bytes = ~word & 0x8080'8080'8080'8080U;
  if (last_bytes == 0) [[unlikely]]
    return read_long_varint(from);
  from += (std::countr_zero(last_bytes) + 1) / 8;
  // Keeps the bytes up to the first one that ends a varint, then closes the gaps between groups of seven bits.
  word &= (last_bytes ^ (last_bytes - 1)) & 0x7F7F'7F7F'7F7F'7F7FU;
  word = (word & 0x007F'007F'007F'007FU) | ((word & 0x7F00'7F00'7F00'7F00U) >> 1U);
  word = (word & 0x0000'3FFF'0000'3FFFU) | ((word & 0x3FFF'0000'3FFF'0000U) >> 2U);
  return (word & 0x0000'0000'0FFF'FFFFU) | ((word & 0x0FFF'FFFF'0000'0000U) >> 4U);
}

/// The position of the varint after the first `count`.
const char* skip_varints(const char* from, std::size_t count);

}  // namespace detail

/// Calls `store(i, value)` once for each i in 0 .. count - 1, in no particular order. False, without any call, if
/// `column` does not have `count` values.
///
/// The start of a varint is known only once the previous one has been examined, so the processor would spend its time
/// waiting. The column is therefore read from four positions at once; counting its values beforehand also makes checks
/// for its end unnecessary.
template <class Store>
bool read_column(std::string_view column, std::size_t count, Store store) {
  const char* from = column.data();
  if (column.empty()) {
    for (std::size_t i = 0; i < count; ++i) store(i, std::uint64_t{0});
    return true;
  }
  if (column.back() < 0) return false;
  if (column.size() == count && count > 1 && count_varints(column) == count) {  // each takes a byte
    for (std::size_t i = 0; i < count; ++i) store(i, std::uint64_t{static_cast<unsigned char>(from[i])});
    return true;
  }
  const std::size_t values = count_varints(column);
  if (values == 1) {
    const std::uint64_t value = detail::read_varint(from);
    for (std::size_t i = 0; i < count; ++i) store(i, value);
    return true;
  }
  if (values != count) return false;

  const std::size_t quarter = count / 4;
  const char* second = detail::skip_varints(from, quarter);
  const char* third = detail::skip_varints(second, quarter);
  const char* fourth = detail::skip_varints(third, quarter);
  for (std::size_t i = 0; i < quarter; ++i) {
    store(i, detail::read_varint(from));
    store(quarter + i, detail::read_varint(second));
    store(2 * quarter + i, detail::read_varint(third));
    store(3 * quarter + i, detail::read_varint(fourth));
  }
  for (std::size_t i = 4 * quarter; i < count; ++i) store(i, detail::read_varint(fourth));
  return true;
}

}  // namespace memreel::wire
