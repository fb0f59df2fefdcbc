// SPDX-License-Identifier: Apache-2.0
// std::from_chars for floating-point numbers, which LLVM's C++ library has since release 20. Included before everything
// else in files of the web build.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <version>

#if !defined(__cpp_lib_to_chars) || __cpp_lib_to_chars < 201611L
namespace std {  // NOLINT(cert-dcl58-cpp): in the place of the library's own

/// For input without locale, sign or hexadecimal digits.
inline from_chars_result from_chars(const char* first, const char* last, double& value,
                                    chars_format format = chars_format::general) {
  const bool has_exponent = format != chars_format::fixed;
  const char* end = first;
  while (end != last && ((*end >= '0' && *end <= '9') || *end == '.' || (*end == '-' && end == first) ||
                         (has_exponent && end != first && (*end == 'e' || *end == 'E' || *end == '+' || *end == '-'))))
    ++end;
  const string text(first, end);
  char* stopped = nullptr;
  const double read = strtod(text.c_str(), &stopped);
  if (stopped == text.c_str()) return {first, errc::invalid_argument};
  const char* const rest = first + (stopped - text.c_str());
  if (isinf(read)) return {rest, errc::result_out_of_range};
  value = read;
  return {rest, errc{}};
}

}  // namespace std
#endif
