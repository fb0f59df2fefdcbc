// DWARF expressions in call frame information.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/stack_memory.h"

namespace memreel::stacks {

/// Register values of one frame; lost ones are unknown.
class Registers {
 public:
  std::optional<std::uintptr_t> operator[](std::uint64_t reg) const {
    if (reg >= register_count || (known_ >> reg & 1U) == 0) return std::nullopt;
    return values_.at(reg);
  }
  void set(std::uint64_t reg, std::uintptr_t value) {
    values_.at(reg) = value;
    known_ |= 1U << reg;
  }

 private:
  std::array<std::uintptr_t, register_count> values_{};
  std::uint32_t known_ = 0;
};

/// The value of an expression, with `initial` on its stack if given. None if it uses an unknown register, memory off
/// the stack, or an operation that call frame information never needs.
std::optional<std::uintptr_t> evaluate(std::span<const std::byte> expression, const Registers& registers,
                                       StackMemory& memory, std::optional<std::uintptr_t> initial = std::nullopt);

}  // namespace memreel::stacks
