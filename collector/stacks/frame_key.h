// A code location on the hot path: one number.
#pragma once

#include <cstdint>

namespace memreel::stacks {

/// A stack frame. Native: the address that its function returns to or resumes at. Python: a position in a code object,
/// both as numbered by the Python frame walker. All zero bits: none.
struct FrameKey {
  std::uint64_t bits = 0;

  static constexpr FrameKey native(std::uintptr_t return_address) { return {return_address}; }

  /// `code` below 2^31: the number of a code object. `position` in it: line or instruction, as the producer chooses.
  static constexpr FrameKey python(std::uint32_t code, std::uint32_t position) {
    return {python_bit | static_cast<std::uint64_t>(code) << 32U | position};
  }

  constexpr bool is_python() const { return (bits & python_bit) != 0; }  // no user-space address has this bit

  /// For a native frame: the address to look up in modules and symbols. It lies within the call instruction: the return
  /// address may belong to another line or, after a call that never returns, to another function.
  constexpr std::uintptr_t code_address() const { return bits - 1; }

  // For a Python frame.
  constexpr std::uint32_t code() const { return static_cast<std::uint32_t>((bits & ~python_bit) >> 32U); }
  constexpr std::uint32_t position() const { return static_cast<std::uint32_t>(bits); }

  friend constexpr bool operator==(FrameKey, FrameKey) = default;

 private:
  static constexpr std::uint64_t python_bit = 1ULL << 63U;
};

}  // namespace memreel::stacks
