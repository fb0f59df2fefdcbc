// A place in code as the hot path sees it: one number.
#pragma once

#include <cstdint>

namespace memreel::stacks {

/// A frame of a stack. Native: the address that the frame's function returns to, or will go on at. Python: a position
/// in a code object, both numbered by who walks Python's frames. All zero bits: none.
struct FrameKey {
  std::uint64_t bits = 0;

  static constexpr FrameKey native(std::uintptr_t return_address) { return {return_address}; }

  /// `code` below 2^31: the number of a code object. `position` in it: line or instruction, as the producer likes.
  static constexpr FrameKey python(std::uint32_t code, std::uint32_t position) {
    return {python_bit | static_cast<std::uint64_t>(code) << 32U | position};
  }

  constexpr bool is_python() const { return (bits & python_bit) != 0; }  // user space never has this bit in an address

  /// Of a native frame: the address to look up in modules and symbols. It lies within the call: the instruction that is
  /// returned to may belong to another line, or, after a call that never returns, to another function.
  constexpr std::uintptr_t code_address() const { return bits - 1; }

  // Of a Python frame.
  constexpr std::uint32_t code() const { return static_cast<std::uint32_t>((bits & ~python_bit) >> 32U); }
  constexpr std::uint32_t position() const { return static_cast<std::uint32_t>(bits); }

  friend constexpr bool operator==(FrameKey, FrameKey) = default;

 private:
  static constexpr std::uint64_t python_bit = 1ULL << 63U;
};

}  // namespace memreel::stacks
