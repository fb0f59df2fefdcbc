#include "collector/python/line_table.h"

#include <optional>

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

}  // namespace memreel::python
