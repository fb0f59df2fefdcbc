// SPDX-License-Identifier: Apache-2.0
#include "collector/python/code_view.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "collector/python/python_layout.h"

namespace memreel::python {
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
