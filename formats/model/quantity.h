// SPDX-License-Identifier: Apache-2.0
// Quantities as people read and write them.
#pragma once

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

/// "1.37" for 1.3702 with 2 decimals; at most 15 decimals.
std::string text_of(double value, int decimals);

/// "1.5 s", "120 ms", "35 us".
std::string text_of_seconds(double seconds);

/// 0 if `whole` is 0.
double share_of(Bytes part, Bytes whole);

/// "0.137" as "13.7 %".
std::string text_of_share(double share);

/// "10GiB", "500MB", "1.5 GiB", "4096", "20M" (binary, as in PyTorch's settings). Decimal units are KB, MB, GB, TB; K,
/// M, G, T and KiB, MiB, GiB, TiB are powers of 1024. Rounds down to whole bytes.
Result<Bytes> parse_bytes(std::string_view text);

}  // namespace memreel
