// SPDX-License-Identifier: Apache-2.0
#include "analyzer/engine/parameters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace memreel {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 8> units{{{"TiB", std::uint64_t{1} << 40U},
                                                                           {"GiB", std::uint64_t{1} << 30U},
                                                                           {"MiB", std::uint64_t{1} << 20U},
                                                                           {"KiB", std::uint64_t{1} << 10U},
                                                                           {"TB", 1'000'000'000'000},
                                                                           {"GB", 1'000'000'000},
                                                                           {"MB", 1'000'000},
                                                                           {"KB", 1'000}}};

}  // namespace

Error bad_parameter(const PolicySpec& spec, const std::string& parameter, std::string_view expected) {
  const auto given = spec.parameters.find(parameter);
  const std::string value = given == spec.parameters.end() ? "" : given->second;
  return {.what =
              "parameter " + parameter + "=" + value + " of policy " + spec.name + " is not " + std::string(expected)};
}

std::optional<Bytes> parse_size(std::string_view text) {
  std::uint64_t unit = 1;
  for (const auto& [name, bytes] : units) {
    if (!text.ends_with(name)) continue;
    unit = bytes;
    text.remove_suffix(name.size());
    break;
  }
  if (const auto whole = parse_integer(text)) {
    if (*whole > std::uint64_t{1} << 62U || *whole > (std::uint64_t{1} << 62U) / unit) return std::nullopt;
    return Bytes{*whole * unit};
  }
  const auto value = parse_fraction(text);
  if (unit == 1 || !value || *value < 0 || *value * static_cast<double>(unit) > 0x1p62) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(*value * static_cast<double>(unit))};
}

std::string size_text(Bytes size) {
  for (const auto& [name, bytes] : units)
    if (std::has_single_bit(bytes) && size.count >= bytes && size.count % bytes == 0)
      return std::to_string(size.count / bytes) + std::string(name);
  return std::to_string(size.count);
}

namespace {

/// "a size such as 8GiB" and none, max: "none, max, or a size such as 8GiB".
std::string with_words(std::string numbers, std::initializer_list<std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += std::string(word) + (words.size() == 1 ? " " : ", ");
  return words.size() == 0 ? numbers : text + "or " + std::move(numbers);
}

}  // namespace

bool AllowedValues::admit(std::string_view value) const {
  if (kind == Kind::checked || std::ranges::find(words, value) != words.end()) return true;
  const auto is_within = [&](std::uint64_t number) { return number >= least && number <= most; };
  const bool needs_power = kind == Kind::power_size || kind == Kind::power_number;
  switch (kind) {
    case Kind::size:
    case Kind::power_size: {
      const auto size = parse_size(value);
      return size && is_within(size->count) && (!needs_power || std::has_single_bit(size->count));
    }
    case Kind::number:
    case Kind::power_number: {
      const auto number = parse_integer(value);
      return number && is_within(*number) && (!needs_power || std::has_single_bit(*number));
    }
    case Kind::fraction: {
      const auto fraction = parse_fraction(value);
      return fraction && *fraction >= static_cast<double>(least) && *fraction <= static_cast<double>(most);
    }
    default:
      return false;
  }
}

AllowedValues AllowedValues::one_of(std::initializer_list<std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + std::string(words.begin()[i]);
  return {.kind = Kind::words, .words = words, .text = std::move(text)};
}

AllowedValues AllowedValues::size(std::string_view example, std::initializer_list<std::string_view> words) {
  return {.kind = Kind::size, .words = words, .text = with_words("a size such as " + std::string(example), words)};
}

AllowedValues AllowedValues::size_between(Bytes least, Bytes most, std::initializer_list<std::string_view> words) {
  return {.kind = Kind::size,
          .least = least.count,
          .most = most.count,
          .words = words,
          .text = with_words("a size from " + size_text(least) + " to " + size_text(most), words)};
}

AllowedValues AllowedValues::power_of_two(Bytes least, Bytes most) {
  return {.kind = Kind::power_size,
          .least = least.count,
          .most = most.count,
          .words = {},
          .text = "a power of two from " + size_text(least) + " to " + size_text(most)};
}

AllowedValues AllowedValues::number(std::uint64_t least, std::uint64_t most) {
  std::string text = "a number";
  if (least > 0 || most < std::numeric_limits<std::uint64_t>::max()) text += " from " + std::to_string(least);
  if (most < std::numeric_limits<std::uint64_t>::max()) text += " to " + std::to_string(most);
  return {.kind = Kind::number, .least = least, .most = most, .words = {}, .text = std::move(text)};
}

AllowedValues AllowedValues::power_of_two_number(std::uint64_t least, std::uint64_t most) {
  return {.kind = Kind::power_number,
          .least = least,
          .most = most,
          .words = {},
          .text = "a power of two from " + std::to_string(least) + " to " + std::to_string(most)};
}

AllowedValues AllowedValues::share() {
  return {.kind = Kind::fraction, .least = 0, .most = 1, .words = {}, .text = "from 0 to 1"};
}

std::map<std::string, std::string> defaults_of(std::span<const Parameter> parameters) {
  std::map<std::string, std::string> defaults;
  for (const Parameter& parameter : parameters) defaults.emplace(parameter.name, parameter.initial);
  return defaults;
}

Result<PolicySpec> completed(const PolicySpec& spec, std::span<const Parameter> parameters) {
  PolicySpec complete{.name = spec.name, .parameters = defaults_of(parameters)};
  for (const auto& [name, value] : spec.parameters) {
    const auto known = std::ranges::find(parameters, name, &Parameter::name);
    if (known != parameters.end()) {
      if (!known->values.admit(value)) return bad_parameter(spec, name, known->values.text);
      complete.parameters[name] = value;
      continue;
    }
    std::string names;
    for (const Parameter& parameter : parameters) names += (names.empty() ? "" : ", ") + parameter.name;
    return Error{.what = "policy " + spec.name + " has no parameter '" + name + "'",
                 .remedy = names.empty() ? "it has none" : "it has: " + names};
  }
  return complete;
}

bool is_true(const PolicySpec& spec, const std::string& parameter) { return spec.parameters.at(parameter) == "true"; }

std::uint64_t number_of(const PolicySpec& spec, const std::string& parameter) {
  return parse_integer(spec.parameters.at(parameter)).value();
}

double fraction_of(const PolicySpec& spec, const std::string& parameter) {
  return parse_fraction(spec.parameters.at(parameter)).value();
}

std::optional<Bytes> size_or_word(const PolicySpec& spec, const std::string& parameter) {
  return parse_size(spec.parameters.at(parameter));
}

Bytes size_of(const PolicySpec& spec, const std::string& parameter) { return size_or_word(spec, parameter).value(); }

Result<Bytes> size_within(const PolicySpec& spec, const std::string& parameter, Bytes least, Bytes most) {
  const Bytes size = size_of(spec, parameter);
  if (size < least || size > most) return bad_parameter(spec, parameter, AllowedValues::power_of_two(least, most).text);
  return size;
}

}  // namespace memreel
