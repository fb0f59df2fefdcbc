// SPDX-License-Identifier: Apache-2.0
// Quantities as people read and write them: sizes, changes of sizes, numbers, hexadecimal digits.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// Numbers in texts that programs write: the whole text must be one.

/// Decimal digits only.
inline std::optional<std::uint64_t> parse_integer(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A finite decimal fraction, e.g. "0.6"; with an exponent ("6e-01") only if `format` is general.
inline std::optional<double> parse_fraction(std::string_view text,
                                            std::chars_format format = std::chars_format::fixed) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// "0 B", "512 B", "1.50 KiB", "6.02 GiB": at most four significant digits.
std::string text_of(Bytes size);

/// Grouped digits: "1,234,567".
std::string text_of(std::uint64_t count);

/// "1 step", "1,234 steps".
inline std::string counted(std::uint64_t count, std::string_view noun) {
  return text_of(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

/// "1.37" for 1.3702 with 2 decimals; at most 15 decimals.
std::string text_of(double value, int decimals);

/// "1.5 s", "120 ms", "35 us".
std::string text_of_seconds(double seconds);

/// With blanks in front, up to `width`.
inline std::string right_aligned(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ').append(text);
}

/// 0 if `whole` is 0.
double share_of(Bytes part, Bytes whole);

/// "0.137" as "13.7 %".
std::string text_of_share(double share);

/// "1.50 to 2.21 GiB", "132.00 MiB to 2.21 GiB", "3.8 to 5.3 %"; the text alone if both are the same.
std::string text_of_range(std::string_view least, const std::string& most);

/// "10GiB", "500MB", "1.5 GiB", "4096", "20M" (binary, as in PyTorch's settings). Decimal units are KB, MB, GB, TB; K,
/// M, G, T and KiB, MiB, GiB, TiB are powers of 1024. Rounds down to whole bytes.
Result<Bytes> parse_bytes(std::string_view text);

/// The memory of a device, as parse_bytes. Less than 1 MiB is refused: somebody left out the unit.
Result<Bytes> parse_device_size(std::string_view text);

// Sizes with a sign, and bytes as hexadecimal digits.

// Changes of a size.

/// "+1.20 GiB", "-512 B", "+0 B".
inline std::string text_of_growth(std::int64_t bytes) {
  const auto size = static_cast<std::uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + text_of(Bytes{bytes < 0 ? 0 - size : size});
}
/// The same of a mean.
inline std::string text_of_growth(double bytes) {
  return (bytes < 0 ? "-" : "+") + text_of(Bytes{static_cast<std::uint64_t>(std::llround(std::abs(bytes)))});
}
inline std::string text_of_growth(Bytes from, Bytes to) {
  return (to < from ? "-" : "+") + text_of(to < from ? from - to : to - from);
}

/// What may be negative, such as memory that is left: "1.20 GiB", "-512 B".
inline std::string text_of_signed(std::int64_t bytes) {
  return bytes < 0 ? text_of_growth(bytes) : text_of(Bytes{static_cast<std::uint64_t>(bytes)});
}

// Hexadecimal.

/// The digit of the last four bits. `ten`: 'a' or 'A'.
constexpr char hex_digit(std::uint64_t value, char ten = 'a') {
  const auto digit = static_cast<char>(value & 0xFU);
  return static_cast<char>(digit < 10 ? '0' + digit : ten + digit - 10);
}

/// "7f45": two digits for each byte.
inline std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    (text += hex_digit(byte >> 4U)) += hex_digit(byte);
  }
  return text;
}

/// "00000000000007f2": sixteen digits.
inline std::string hex_of(std::uint64_t value) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4U) *digit = hex_digit(value);
  return text;
}

/// "0x7f2a00000200".
std::string hexadecimal(std::uint64_t value);

}  // namespace memreel
