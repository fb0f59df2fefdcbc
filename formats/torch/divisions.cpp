#include "formats/torch/divisions.h"

#include "formats/model/numbers.h"

namespace memreel {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint32_t> parse_division(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > 1U << 31U || (*value != 0 && !std::has_single_bit(*value))) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

}  // namespace

std::optional<Power2Divisions> parse_power2_divisions(std::string_view text, TorchRelease release) {
  Power2Divisions divisions{};
  if (!text.starts_with('[')) {
    const auto all = parse_division(text);
    if (!all) return std::nullopt;
    divisions.fill(*all);
    return divisions;
  }
  if (!text.ends_with(']')) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::size_t last = 0;
  bool first = true;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view key = trimmed(item.substr(0, colon));
    const auto value = parse_division(trimmed(item.substr(colon + 1)));
    if (!value) return std::nullopt;
    if (key == ">") {
      const std::size_t begin = release.has(torch_rule::rest_includes_last) ? last : last + 1;
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(begin), divisions.end(), *value);
      continue;
    }
    const auto mib = parse_integer(key);
    if (!mib || !std::has_single_bit(*mib)) return std::nullopt;
    last = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(*mib)) - 1, divisions.size() - 1);
    if (first) std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(last), *value);
    first = false;
    divisions[last] = *value;
  }
  return divisions;
}

std::string power2_divisions_text(const Power2Divisions& divisions, TorchRelease release) {
  const auto differs_from = [](std::uint32_t value) { return [value](std::uint32_t d) { return d != value; }; };
  const auto first = std::find_if(divisions.begin(), divisions.end(), differs_from(divisions.front()));
  if (first == divisions.end()) return std::to_string(divisions.front());
  const auto same = std::find_if(divisions.rbegin(), divisions.rend(), differs_from(divisions.back())).base();
  const auto listed = release.has(torch_rule::rest_includes_last) ? same + 1 : same;
  std::string text = "[";
  for (auto each = first - 1; each != listed; ++each)
    text += std::to_string(1U << (each - divisions.begin())) + ":" + std::to_string(*each) + ",";
  return text + ">:" + std::to_string(divisions.back()) + "]";
}

}  // namespace memreel
