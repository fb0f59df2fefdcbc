// Maps instructions to source lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/python/layout.h"

namespace memreel::python {

/// The line of the instruction at `position` (in units of two bytes; not_started: the first line); 0 if it has none.
/// `table` may be truncated or corrupt: instructions beyond the valid part have no line.
std::uint32_t line_of(LineFormat format, std::span<const std::byte> table, std::int32_t first_line,
                      std::uint32_t position);

/// The position of a frame that has not executed any instruction.
inline constexpr std::uint32_t not_started = 0xFFFF'FFFF;

}  // namespace memreel::python
