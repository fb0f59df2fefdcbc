// SPDX-License-Identifier: Apache-2.0
#include "collector/python/python_layout.h"

#include <algorithm>

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

namespace {

constexpr std::uint32_t as_line(std::int64_t line) {
  return line > 0 && line <= 0xFFFF'FFFF ? static_cast<std::uint32_t>(line) : 0;
}

/// Pairs of (bytes of code, signed lines): the lines apply after the bytes.
std::uint32_t in_lnotab(std::span<const std::byte> table, std::int64_t line, std::uint64_t byte) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    end += std::to_integer<std::uint8_t>(table[i]);
    if (end > byte) break;
    line += static_cast<std::int8_t>(table[i + 1]);
  }
  return as_line(line);
}

/// Pairs of (bytes of code, signed lines): the lines apply to the bytes; -128 means that they have no line.
std::uint32_t in_line_ranges(std::span<const std::byte> table, std::int64_t line, std::uint64_t byte) {
  constexpr std::int8_t no_line = -128;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto lines = static_cast<std::int8_t>(table[i + 1]);
    end += std::to_integer<std::uint8_t>(table[i]);
    if (lines != no_line) line += lines;
    if (end > byte) return lines == no_line ? 0 : as_line(line);
  }
  return 0;
}

/// Variable-length entries; the first byte of each has its highest bit set.
std::uint32_t in_locations(std::span<const std::byte> table, std::int64_t line, std::uint32_t position) {
  std::uint64_t end = 0;
  std::size_t i = 0;
  const auto next = [&]() -> std::optional<std::uint8_t> {
    if (i == table.size()) return std::nullopt;
    return std::to_integer<std::uint8_t>(table[i++]);
  };
  const auto signed_number = [&]() -> std::int64_t {  // six bits a byte, the lowest first; the sign is the last bit
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 60; shift += 6) {
      const auto byte = next();
      if (!byte) break;
      value |= (*byte & 63ULL) << shift;
      if ((*byte & 64U) == 0) break;
    }
    const auto magnitude = static_cast<std::int64_t>(value >> 1U);
    return (value & 1U) != 0 ? -magnitude : magnitude;
  };
  while (const auto head = next()) {
    const unsigned kind = *head >> 3U & 15U;
    end += (*head & 7U) + 1U;
    constexpr unsigned no_location = 15, long_form = 14, line_only = 13, first_same_line = 10;
    if (kind == long_form || kind == line_only) line += signed_number();
    if (kind >= first_same_line && kind < line_only) line += kind - first_same_line;
    if (end > position) return kind == no_location ? 0 : as_line(line);
    while (i < table.size() && (std::to_integer<std::uint8_t>(table[i]) & 128U) == 0) ++i;  // columns
  }
  return 0;
}

}  // namespace

std::uint32_t line_of(LineFormat format, std::span<const std::byte> table, std::int32_t first_line,
                      std::uint32_t position) {
  if (position == not_started) return as_line(first_line);
  const std::uint64_t byte = std::uint64_t{position} * 2;
  switch (format) {
    case LineFormat::lnotab:
      return in_lnotab(table, first_line, byte);
    case LineFormat::line_ranges:
      return in_line_ranges(table, first_line, byte);
    case LineFormat::locations:
      return in_locations(table, first_line, position);
  }
  return 0;
}

namespace {

constexpr std::size_t longest_text = 4096;
constexpr std::size_t longest_line_table = 65536;

template <class Memory>
bool has_type(const void* object, const void* type, const Layout& layout, Memory& memory) {
  return object != nullptr && memory.template read<const void*>(object, layout.object_type) == type;
}

template <class Memory>
std::optional<RawText> text_of(const void* object, const Layout& layout, const Types& types, Memory& memory) {
  if (!has_type(object, types.text, layout, memory)) return std::nullopt;
  // Bit fields of PyASCIIObject.state: interned, kind 3, compact 1, ascii 1.
  const auto state = memory.template read<std::uint32_t>(object, layout.text_state) >> layout.text_kind_bit;
  const auto length = memory.template read<std::uint64_t>(object, layout.text_length);
  const std::uint32_t kind = state & 7U;
  const bool compact = (state >> 3U & 1U) != 0;
  const bool ascii = (state >> 4U & 1U) != 0;
  if (kind != 1 && kind != 2 && kind != 4) return std::nullopt;
  const auto* const start = static_cast<const std::byte*>(object);
  const auto* const data = !compact ? memory.template read<const std::byte*>(object, layout.text_compact_data)
                                    : start + (ascii ? layout.text_ascii_data : layout.text_compact_data);
  const std::size_t size = std::min<std::uint64_t>(length, longest_text / kind) * kind;
  if (data == nullptr || !memory.readable(data, size)) return std::nullopt;
  return RawText{{data, size}, static_cast<std::uint8_t>(kind)};
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto add = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) point = 0xFFFD;
  if (point < 0x80) {
    add(point);
    return;
  }
  if (point < 0x800) {
    add(0xC0 | point >> 6U);
  } else {
    if (point < 0x10000) {
      add(0xE0 | point >> 12U);
    } else {
      add(0xF0 | point >> 18U);
      add(0x80 | (point >> 12U & 0x3FU));
    }
    add(0x80 | (point >> 6U & 0x3FU));
  }
  add(0x80 | (point & 0x3FU));
}

}  // namespace

std::string to_utf8(RawText text) {
  std::string result;
  result.reserve(text.bytes.size());
  for (std::size_t i = 0; i + text.width <= text.bytes.size(); i += text.width) {
    std::uint32_t point = 0;  // little-endian, like every supported machine
    std::memcpy(&point, text.bytes.data() + i, text.width);
    append_utf8(result, point);
  }
  return result;
}

template <class Memory>
std::optional<CodeView> view_of(const void* object, const Layout& layout, const Types& types, Memory& memory) {
  if (!has_type(object, types.code, layout, memory)) return std::nullopt;
  const auto file = text_of(memory.template read<const void*>(object, layout.code_file), layout, types, memory);
  const auto name = text_of(memory.template read<const void*>(object, layout.code_name), layout, types, memory);
  const auto* const table = memory.template read<const std::byte*>(object, layout.code_line_table);
  if (!file || !name || !has_type(table, types.bytes, layout, memory)) return std::nullopt;
  const auto table_size = memory.template read<std::uint64_t>(table, layout.bytes_size);
  const std::span lines{table + layout.bytes_data, std::min<std::uint64_t>(table_size, longest_line_table)};
  if (!memory.readable(lines.data(), lines.size())) return std::nullopt;
  return CodeView{*file, *name, lines, memory.template read<std::int32_t>(object, layout.code_first_line)};
}

template std::optional<CodeView> view_of(const void*, const Layout&, const Types&, Direct&);
template std::optional<CodeView> view_of(const void*, const Layout&, const Types&, Careful&);

}  // namespace memreel::python
