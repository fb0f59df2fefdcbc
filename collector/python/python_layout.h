// SPDX-License-Identifier: Apache-2.0
// Reading the interpreter's structures: directly, or carefully while their layout is unverified.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

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

// Where CPython keeps what a frame walk reads.

/// How to tell the frames of one C call of the evaluator from those of the next.
enum class Activations : std::uint8_t {
  each_frame,    // 3.9, 3.10: every Python call is a C call
  marked_frame,  // 3.11: the outermost frame of a C call is marked as its entry
  shim_frame,    // since 3.12: a frame without Python code lies below them
};

/// The contents of a frame's instruction field.
enum class InstructionField : std::uint8_t {
  byte_offset,  // 3.9
  unit_offset,  // 3.10: units of two bytes
  pointer,      // 3.11 on, into the code object itself
};

/// Encodings of the table from instructions to lines. In CPython: Objects/lnotab_notes.txt, Objects/locations.md.
enum class LineFormat : std::uint8_t { lnotab, line_ranges, locations };

/// Byte offsets in CPython's structures on 64-bit machines. They are constant within a minor version, both for builds
/// with a GIL and for those without. Taken from the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.5, 3.14.7 and
/// 3.15.
struct Layout {
  static constexpr std::uint16_t absent = 0xFFFF;

  Activations activations{};
  InstructionField instruction{};
  LineFormat lines{};
  std::uint8_t lowest_shim_owner = 0xFF;  // frame_owner values from here on are shims

  // PyThreadState
  std::uint16_t thread_frame = 0;  // the innermost frame, or the structure that holds it
  std::uint16_t frame_in_thread_frame = absent;

  // PyFrameObject; since 3.11 _PyInterpreterFrame
  std::uint16_t frame_code = 0;
  std::uint16_t frame_caller = 0;
  std::uint16_t frame_instruction = 0;
  std::uint16_t frame_owner = absent;
  std::uint16_t frame_is_entry = absent;
  std::uint16_t frame_locals = 0;         // the first local variable: in a method, `self`
  std::uint16_t frame_bytecode = absent;  // without a GIL, since 3.14: which copy of its instructions it runs

  // PyCodeObject
  std::uint16_t code_file = 0;
  std::uint16_t code_name = 0;  // the qualified name if there is one
  std::uint16_t code_first_line = 0;
  std::uint16_t code_line_table = 0;
  std::uint16_t code_instructions = 0;          // inline, since 3.11
  std::uint16_t code_first_traceable = absent;  // frames that are before this instruction are hidden
  std::uint16_t code_version = absent;          // a number that no other code object had before
  std::uint16_t code_bytecodes = absent;        // without a GIL, since 3.14: the array of all copies (_PyCodeArray)

  // PyObject, PyTypeObject, PyVarObject, PyBytesObject, PyUnicodeObject
  std::uint16_t object_type = 8;
  std::uint16_t type_name = 24;  // of a PyTypeObject: zero-terminated UTF-8
  std::uint16_t bytes_size = 16;
  std::uint16_t bytes_data = 32;
  std::uint16_t text_length = 16;
  std::uint16_t text_state = 32;
  std::uint8_t text_kind_bit = 2;        // bit position of the kind in its state; compact and ascii follow
  std::uint16_t text_ascii_data = 48;    // of compact ASCII
  std::uint16_t text_compact_data = 72;  // of other compact text; for text that is not compact, the pointer to it
};

/// The layout of CPython 3.`minor` with a GIL, if it is one of 3.9 to 3.15.
std::optional<Layout> layout_of(unsigned minor);

/// The layout as the interpreter itself tells it, with a GIL or without, from 3.13 on: `debug_offsets` is the start of
/// its `_PyRuntime`. None when what is there is not the table of CPython 3.`minor`.
std::optional<Layout> read_debug_offsets(const void* debug_offsets, unsigned minor);

// The contents of a code object, without a copy.

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
/// `Memory` is Direct or Careful. The view is valid while the code object lives.
template <class Memory>
std::optional<CodeView> view_of(const void* object, const Layout& layout, const Types& types, Memory& memory);

}  // namespace memreel::python
