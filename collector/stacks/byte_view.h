// SPDX-License-Identifier: Apache-2.0
// Bounds-checked reading of mapped memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace memreel::stacks {

/// Bytes and the address they are mapped at: where they actually are, except in tests.
struct MappedBytes {
  std::uintptr_t address = 0;
  std::span<const std::byte> bytes;

  bool contains(std::uintptr_t a) const { return a - address < bytes.size(); }
  /// From `a`, which must be inside, to the end.
  MappedBytes from(std::uintptr_t a) const { return {a, bytes.subspan(a - address)}; }
};

/// Reads values sequentially. Reading past the end returns zero and is remembered.
class ByteReader {
 public:
  explicit ByteReader(MappedBytes bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  bool done() const { return failed_ || position_ == bytes_.bytes.size(); }
  /// The address of the next value.
  std::uintptr_t address() const { return bytes_.address + position_; }

  template <class T>
  T fixed() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> source = take(sizeof(T));
    if (!source.empty()) std::memcpy(&value, source.data(), sizeof(T));
    return value;
  }

  std::uint64_t uleb128() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    failed_ = true;
    return 0;
  }

  std::int64_t sleb128() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) != 0) continue;
      if ((byte & 0x40U) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
      return static_cast<std::int64_t>(value);
    }
    failed_ = true;
    return 0;
  }

  /// The next `size` bytes; empty if there are fewer.
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.bytes.size() - position_) {
      failed_ = true;
      position_ = bytes_.bytes.size();
      return {};
    }
    const std::span<const std::byte> taken = bytes_.bytes.subspan(position_, size);
    position_ += size;
    return taken;
  }

 private:
  MappedBytes bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace memreel::stacks
