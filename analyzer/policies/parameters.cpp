// SPDX-License-Identifier: Apache-2.0
#include "analyzer/policies/parameters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

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

Result<PolicySpec> with_defaults(const PolicySpec& spec, const std::map<std::string, std::string>& defaults) {
  PolicySpec complete{.name = spec.name, .parameters = defaults};
  for (const auto& [key, value] : spec.parameters) {
    if (const auto known = complete.parameters.find(key); known != complete.parameters.end()) {
      known->second = value;
      continue;
    }
    std::string names;
    for (const auto& [name, unused] : defaults) names += (names.empty() ? "" : ", ") + name;
    return Error{.what = "policy " + spec.name + " has no parameter '" + key + "'",
                 .remedy = names.empty() ? "it has none" : "it has: " + names};
  }
  return complete;
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

Result<Bytes> power_of_two_parameter(const PolicySpec& spec, const std::string& parameter, Bytes least, Bytes most) {
  const auto size = parse_size(spec.parameters.at(parameter));
  if (!size || !std::has_single_bit(size->count) || *size < least || *size > most)
    return bad_parameter(spec, parameter, "a power of two from " + size_text(least) + " to " + size_text(most));
  return *size;
}

}  // namespace memreel
