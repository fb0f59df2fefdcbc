// SPDX-License-Identifier: Apache-2.0
// The values of options on command lines, as every program reads them.
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <span>

#include "formats/model/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
class Option;
}  // namespace CLI

namespace memreel {

/// The numbers that an option takes.
template <class Number>
struct Range {
  Number least, most;
};

/// For options that need no other limit: what a table may have of rows, a job of ranks...
inline constexpr std::uint64_t any_count = std::numeric_limits<std::uint32_t>::max();

/// Seconds that an option may ask for, if it needs no other limit; a clock's nanoseconds hold the most.
inline constexpr Range<double> any_seconds{.least = 1e-9, .most = 1e9};

// Options that take numbers. CLI11 alone would read -1 as a huge number, 010 as 8, and NaN as any. `set` is called with
// the value. Errors name the option and its range.

/// Decimal digits only.
CLI::Option* add_whole_number(CLI::App& app, const std::string& names, std::function<void(std::uint64_t)> set,
                              Range<std::uint64_t> range, const std::string& description);
/// Also decimals and exponents.
CLI::Option* add_number(CLI::App& app, const std::string& names, std::function<void(double)> set, Range<double> range,
                        const std::string& description);

/// Of an option or argument that may be given several times: `set` is called for each.
CLI::Option* add_whole_numbers(CLI::App& app, const std::string& names, std::function<void(std::uint64_t)> set,
                               Range<std::uint64_t> range, const std::string& description);

// The same, for a variable; `range` must fit in it.

template <std::integral Number>
CLI::Option* add_whole_number(CLI::App& app, const std::string& names, Number& into, Range<std::uint64_t> range,
                              const std::string& description) {
  const auto set = [&into](std::uint64_t number) { into = static_cast<Number>(number); };
  return add_whole_number(app, names, std::function<void(std::uint64_t)>(set), range, description);
}
template <std::integral Number>
CLI::Option* add_whole_number(CLI::App& app, const std::string& names, std::optional<Number>& into,
                              Range<std::uint64_t> range, const std::string& description) {
  const auto set = [&into](std::uint64_t number) { into = static_cast<Number>(number); };
  return add_whole_number(app, names, std::function<void(std::uint64_t)>(set), range, description);
}
inline CLI::Option* add_number(CLI::App& app, const std::string& names, double& into, Range<double> range,
                               const std::string& description) {
  const auto set = [&into](double number) { into = number; };
  return add_number(app, names, std::function<void(double)>(set), range, description);
}

/// A check of an option that takes one of a few words.
std::function<std::string(const std::string&)> one_of(std::vector<std::string> words);

/// The error for an option with an empty value among a program's arguments up to "--": most likely a shell's variable
/// that was not set, and the option must not count as not given. Nothing if there is none.
std::optional<Error> empty_value(std::span<char* const> words);

}  // namespace memreel
