// SPDX-License-Identifier: Apache-2.0
// Sizes with a sign, and bytes as hexadecimal digits.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/model/quantity.h"

namespace memreel {

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

}  // namespace memreel
