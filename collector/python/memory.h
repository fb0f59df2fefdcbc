// Reading the interpreter's structures: directly, or carefully while their layout is unverified.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collector/stacks/stack_memory.h"

namespace memreel::python {

/// Reads memory that is known to be mapped.
class Direct {
 public:
  template <class T>
  T read(const void* base, std::size_t offset) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(base) + offset, sizeof value);
    return value;
  }
  bool readable(const void* /*begin*/, std::size_t /*size*/) { return true; }
  static constexpr bool failed() { return false; }
};

/// Reads memory that may not be mapped: checks with the kernel first, by a system call that every sandbox allows. Once
/// a read fails, it and all later ones return zeros.
class Careful {
 public:
  template <class T>
  T read(const void* base, std::size_t offset) {
    static_assert(sizeof(T) <= page_size);
    T value{};
    const std::byte* const from = static_cast<const std::byte*>(base) + offset;
    if (readable(from, sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }
  /// Whether the whole range is mapped. One call per page.
  bool readable(const void* begin, std::size_t size) {
    const auto first = std::bit_cast<std::uintptr_t>(begin);
    for (std::uintptr_t at = first; at - first < size && !failed_; at = (at / page_size + 1) * page_size)
      failed_ = !stacks::is_readable(at);
    return !failed_;
  }
  bool failed() const { return failed_; }

 private:
  static constexpr std::size_t page_size = 4096;  // or a divisor of the real one

  bool failed_ = false;
};

}  // namespace memreel::python
