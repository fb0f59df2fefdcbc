// SPDX-License-Identifier: Apache-2.0
#include "collector/python/python_layout.h"

#include <cstring>
#include <string_view>

namespace memreel::python {
namespace {

constexpr Layout layout_3_9{
    .activations = Activations::each_frame,
    .instruction = InstructionField::byte_offset,
    .lines = LineFormat::lnotab,
    .thread_frame = 24,
    .frame_code = 32,
    .frame_caller = 24,
    .frame_instruction = 104,
    .frame_locals = 360,
    .code_file = 104,
    .code_name = 112,
    .code_first_line = 40,
    .code_line_table = 120,
};

constexpr Layout layout_3_10 = [] {
  Layout layout = layout_3_9;
  layout.instruction = InstructionField::unit_offset;
  layout.lines = LineFormat::line_ranges;
  layout.frame_instruction = 96;
  layout.frame_locals = 352;
  return layout;
}();

constexpr Layout layout_3_11{
    .activations = Activations::marked_frame,
    .instruction = InstructionField::pointer,
    .lines = LineFormat::locations,
    .thread_frame = 56,
    .frame_in_thread_frame = 8,
    .frame_code = 32,
    .frame_caller = 48,
    .frame_instruction = 56,
    .frame_owner = 69,
    .frame_is_entry = 68,
    .frame_locals = 72,
    .code_file = 112,
    .code_name = 128,
    .code_first_line = 72,
    .code_line_table = 136,
    .code_instructions = 184,
    .code_first_traceable = 168,
};

constexpr Layout layout_3_12 = [] {
  Layout layout = layout_3_11;
  layout.activations = Activations::shim_frame;
  layout.lowest_shim_owner = 3;
  layout.frame_in_thread_frame = 0;
  layout.frame_code = 0;
  layout.frame_caller = 8;
  layout.frame_owner = 70;
  layout.frame_is_entry = Layout::absent;
  layout.code_first_line = 68;
  layout.code_instructions = 192;
  layout.code_first_traceable = 176;
  layout.code_version = 92;
  layout.text_ascii_data = 40;
  layout.text_compact_data = 56;
  return layout;
}();

constexpr Layout layout_3_13 = [] {
  Layout layout = layout_3_12;
  layout.thread_frame = 72;
  layout.frame_in_thread_frame = Layout::absent;
  layout.code_instructions = 200;
  layout.code_first_traceable = 184;
  return layout;
}();

constexpr Layout layout_3_14 = [] {
  Layout layout = layout_3_13;
  layout.frame_owner = 74;
  layout.frame_locals = 80;
  layout.code_instructions = 208;
  layout.code_first_traceable = 192;
  return layout;
}();

/// The 64-bit words of `_Py_DebugOffsets` (Include/internal/pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14
/// and 3.15). 0: that version's table lacks the word.
struct DebugWords {
  std::size_t thread_frame, frame_caller, frame_code, frame_instruction, frame_locals, frame_owner, frame_bytecode;
  std::size_t code_file, code_name, code_line_table, code_first_line, code_instructions, code_bytecodes;
  std::size_t object_type, type_name, bytes_size, bytes_data, text_state, text_length, text_ascii_data;
};
constexpr DebugWords words_3_13{23, 29, 30, 31, 32, 33, 0, 35, 37, 38, 39, 43, 0, 45, 47, 65, 66, 68, 69, 70};
constexpr DebugWords words_3_14{26, 32, 33, 34, 35, 36, 38, 40, 42, 43, 44, 48, 49, 51, 53, 75, 76, 78, 79, 80};
constexpr DebugWords words_3_15{26, 40, 41, 42, 43, 44, 46, 48, 50, 51, 52, 56, 57, 59, 61, 87, 88, 90, 91, 92};

const DebugWords* words_of(unsigned minor) {
  switch (minor) {
    case 13:
      return &words_3_13;
    case 14:
      return &words_3_14;
    case 15:
      return &words_3_15;
    default:
      return nullptr;
  }
}

}  // namespace

std::optional<Layout> layout_of(unsigned minor) {
  switch (minor) {
    case 9:
      return layout_3_9;
    case 10:
      return layout_3_10;
    case 11:
      return layout_3_11;
    case 12:
      return layout_3_12;
    case 13:
      return layout_3_13;
    case 14:
    case 15:
      return layout_3_14;
    default:
      return std::nullopt;
  }
}

std::optional<Layout> read_debug_offsets(const void* debug_offsets, unsigned minor) {
  constexpr std::size_t version_word = 1;
  constexpr std::size_t free_threaded_word = 2;
  const DebugWords* const known = words_of(minor);
  if (known == nullptr) return std::nullopt;
  if (std::memcmp(debug_offsets, "xdebugpy", 8) != 0) return std::nullopt;
  const auto word = [&](std::size_t i) {
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(debug_offsets) + i * sizeof value, sizeof value);
    return value;
  };
  if (word(version_word) >> 16U != (3U << 8U | minor)) return std::nullopt;

  const DebugWords& words = *known;
  bool sound = true;
  const auto offset = [&](std::size_t i) {
    constexpr std::uint64_t largest = 4096;  // of any of these structures
    const std::uint64_t value = word(i);
    sound = sound && value < largest;
    return static_cast<std::uint16_t>(value % largest);
  };
  Layout layout = *layout_of(minor);
  layout.thread_frame = offset(words.thread_frame);
  layout.frame_caller = offset(words.frame_caller);
  layout.frame_code = offset(words.frame_code);
  layout.frame_instruction = offset(words.frame_instruction);
  layout.frame_locals = offset(words.frame_locals);
  layout.frame_owner = offset(words.frame_owner);
  layout.code_file = offset(words.code_file);
  layout.code_name = offset(words.code_name);
  layout.code_line_table = offset(words.code_line_table);
  layout.code_first_line = offset(words.code_first_line);
  layout.code_instructions = offset(words.code_instructions);
  layout.object_type = offset(words.object_type);
  layout.type_name = offset(words.type_name);
  layout.bytes_size = offset(words.bytes_size);
  layout.bytes_data = offset(words.bytes_data);
  layout.text_state = offset(words.text_state);
  layout.text_length = offset(words.text_length);
  layout.text_ascii_data = offset(words.text_ascii_data);
  layout.text_compact_data = static_cast<std::uint16_t>(layout.text_ascii_data + 16);  // its length in UTF-8, its UTF-8

  // Not in the table. A code object ends, since 3.12, with an int (the first traceable instruction), padding, a
  // pointer, without a GIL from 3.14 on the pointer to the copies of its instructions, and the instructions. Its
  // version is the sixth int after the first line.
  std::uint16_t end = layout.code_instructions;
  const bool has_copies = word(free_threaded_word) != 0 && words.code_bytecodes != 0;
  if (has_copies) {
    layout.frame_bytecode = offset(words.frame_bytecode);
    end = layout.code_bytecodes = offset(words.code_bytecodes);
    layout.text_kind_bit = 8;  // a separate byte says whether the text is interned
  }
  layout.code_first_traceable = static_cast<std::uint16_t>(end - 16);
  layout.code_version = static_cast<std::uint16_t>(layout.code_first_line + 24);
  if (!sound) return std::nullopt;
  return layout;
}

}  // namespace memreel::python
