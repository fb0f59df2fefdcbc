// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/engine/parameters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

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

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Removes and returns the text up to the first comma outside brackets, and the comma, from `rest`.
std::string_view take_item(std::string_view& rest) {
  int depth = 0;
  std::size_t end = 0;
  for (; end < rest.size(); ++end) {
    const char c = rest[end];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ',' && depth <= 0) break;
  }
  const std::string_view item = rest.substr(0, end);
  rest.remove_prefix(end < rest.size() ? end + 1 : end);
  return trimmed(item);
}

Error malformed(std::string_view text, std::string_view why) {
  return {.what = "policy '" + std::string(text) + "': " + std::string(why),
          .remedy = "write it like torch.native{max_split_size_mb=128,garbage_collection_threshold=0.6}"};
}

Result<PolicySpec> parse_policy(std::string_view text) {
  PolicySpec spec;
  const std::size_t brace = text.find('{');
  spec.name = trimmed(text.substr(0, brace));
  if (spec.name.empty()) return malformed(text, "it has no name");
  if (spec.name.find_first_of("}[]=") != std::string::npos) return malformed(text, "stray bracket or equals sign");
  if (brace == std::string_view::npos) return spec;
  if (!text.ends_with('}')) return malformed(text, "the brace is not closed at its end");
  std::string_view rest = text.substr(brace + 1, text.size() - brace - 2);
  while (!rest.empty()) {
    const std::string_view item = take_item(rest);
    const std::size_t equals = item.find_first_of("=:");
    if (equals == std::string_view::npos || equals == 0)
      return malformed(text, "a parameter is not of the form key=value or key:value");
    const auto [unused, is_new] =
        spec.parameters.emplace(trimmed(item.substr(0, equals)), trimmed(item.substr(equals + 1)));
    if (!is_new)
      return malformed(text, "parameter '" + std::string(trimmed(item.substr(0, equals))) + "' is given twice");
  }
  return spec;
}

}  // namespace

std::string PolicySpec::text() const {
  std::string text = name;
  for (const auto& [key, value] : parameters) text += (text.size() == name.size() ? "{" : ",") + key + "=" + value;
  return parameters.empty() ? text : text + "}";
}

Result<std::vector<PolicySpec>> parse_policies(std::string_view text) {
  std::vector<PolicySpec> specs;
  std::string_view rest = text;
  if (trimmed(rest).ends_with(',')) return malformed(text, "nothing follows the last comma");
  do {
    auto spec = parse_policy(take_item(rest));
    if (!spec) return std::move(spec).error();
    specs.push_back(*std::move(spec));
  } while (!rest.empty());
  return specs;
}

}  // namespace memreel
