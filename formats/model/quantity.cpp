// SPDX-License-Identifier: Apache-2.0
#include "formats/model/quantity.h"

#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

namespace memreel {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i]))) return false;
  }
  return true;
}

}  // namespace

std::string text_of(Bytes size) {
  static constexpr std::array<std::string_view, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(size.count);
  std::size_t unit = 0;
  // 1023.995 would be printed as 1024.00.
  while (value >= 1023.995 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return text_of(value, unit == 0 ? 0 : 2) + " " + std::string(units.at(unit));
}

std::string text_of(double value, int decimals) {
  std::array<char, 400> text{};  // the largest finite number has 309 digits
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string text_of(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t from_end = 3; from_end < digits.size(); from_end += 4)
    digits.insert(digits.size() - from_end, 1, ',');
  return digits;
}

std::string text_of_seconds(double seconds) {
  if (seconds >= 1) return text_of(seconds, 2) + " s";
  if (seconds >= 1e-3) return text_of(seconds * 1e3, 1) + " ms";
  return text_of(seconds * 1e6, 0) + " us";
}

double share_of(Bytes part, Bytes whole) {
  return whole == 0_B ? 0 : static_cast<double>(part.count) / static_cast<double>(whole.count);
}

std::string text_of_share(double share) { return text_of(share * 100, 1) + " %"; }

std::string text_of_range(std::string_view least, const std::string& most) {
  if (least == most) return most;
  const auto unit = [](std::string_view text) { return text.substr(std::min(text.size(), text.rfind(' '))); };
  if (unit(least) == unit(most)) least.remove_suffix(unit(least).size());
  return std::string(least) + " to " + most;
}

Result<Bytes> parse_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 14> units{{{"", 1},
                                                                              {"B", 1},
                                                                              {"K", 0x1p10},
                                                                              {"KiB", 0x1p10},
                                                                              {"KB", 1e3},
                                                                              {"M", 0x1p20},
                                                                              {"MiB", 0x1p20},
                                                                              {"MB", 1e6},
                                                                              {"G", 0x1p30},
                                                                              {"GiB", 0x1p30},
                                                                              {"GB", 1e9},
                                                                              {"T", 0x1p40},
                                                                              {"TiB", 0x1p40},
                                                                              {"TB", 1e12}}};
  const Error error{.what = "'" + std::string(text) + "' is not a size", .remedy = "write it as 10GiB, 500MB or 4096"};
  const char* const end = text.data() + text.size();

  std::uint64_t whole = 0;
  if (const auto [rest, problem] = std::from_chars(text.data(), end, whole); problem == std::errc{} && rest == end) {
    return Bytes{whole};
  }
  double number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (problem != std::errc{} || std::signbit(number) || !std::isfinite(number)) return error;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const bool is_apart = unit.starts_with(' ');
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (is_apart && unit.empty()) return error;
  for (const auto& [name, factor] : units) {
    if (!equal_ignoring_case(unit, name)) continue;
    const double bytes = std::floor(number * factor);
    if (bytes >= 0x1p64) return error;
    return Bytes{static_cast<std::uint64_t>(bytes)};
  }
  return error;
}

Result<Bytes> parse_device_size(std::string_view text) {
  constexpr Bytes least = 1_MiB;
  const Result<Bytes> size = parse_bytes(text);
  if (!size || *size >= least) return size;
  return Error{.what = text_of(size->count) + (size->count == 1 ? " byte?" : " bytes?"),
               .remedy = "write " + std::to_string(std::max<std::uint64_t>(1, size->count)) + "GiB"};
}

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  do {
    text.insert(text.begin(), hex_digit(value));
    value >>= 4U;
  } while (value != 0);
  return "0x" + text;
}

}  // namespace memreel
