// SPDX-License-Identifier: Apache-2.0
#include "analyzer/engine/policy_spec.h"

#include <cstddef>

namespace memreel {
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
