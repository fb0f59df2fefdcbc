// SPDX-License-Identifier: Apache-2.0
// The contents of a code object, without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "collector/python/python_layout.h"

namespace memreel::python {

// Maps instructions to source lines.

/// The line of the instruction at `position` (in units of two bytes; not_started: the first line); 0 if it has none.
/// `table` may be truncated or corrupt: instructions beyond the valid part have no line.
std::uint32_t line_of(LineFormat format, std::span<const std::byte> table, std::int32_t first_line,
                      std::uint32_t position);

/// The position of a frame that has not executed any instruction.
inline constexpr std::uint32_t not_started = 0xFFFF'FFFF;

/// Text as Python stores it: code points of `width` bytes each.
struct RawText {
  std::span<const std::byte> bytes;
  std::uint8_t width = 1;  // 1, 2 or 4
};

/// Converts to UTF-8. Invalid code points (lone surrogates) become U+FFFD.
std::string to_utf8(RawText text);

/// The parts of a code object that the user sees. Two code objects with equal parts are indistinguishable in a trace.
struct CodeView {
  RawText file;
  RawText name;
  std::span<const std::byte> lines;
  std::int32_t first_line = 0;
};

/// The types of a running interpreter, used to recognise its objects.
struct Types {
  const void* code = nullptr;   // PyCode_Type
  const void* text = nullptr;   // PyUnicode_Type
  const void* bytes = nullptr;  // PyBytes_Type
};

/// `object` as code; none if it is something else. Texts longer than 4 KiB and line tables longer than 64 KiB are cut.
/// `Memory` is Direct or Careful (python_layout.h). The view is valid while the code object lives.
template <class Memory>
std::optional<CodeView> view_of(const void* object, const Layout& layout, const Types& types, Memory& memory);

}  // namespace memreel::python
