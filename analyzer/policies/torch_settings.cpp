#include "analyzer/policies/torch_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "analyzer/policies/parameters.h"

namespace memreel {
namespace {

constexpr const char* split_key = "max_split_size_mb";
constexpr const char* non_split_key = "max_non_split_rounding_mb";
constexpr const char* segment_key = "large_segment_size_mb";
constexpr const char* divisions_key = "roundup_power2_divisions";
constexpr const char* expandable_key = "expandable_segments";
constexpr const char* threshold_key = "garbage_collection_threshold";

using Divisions = std::array<std::uint32_t, 16>;

std::optional<std::uint32_t> parse_division(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > 1U << 16U || (*value != 0 && !std::has_single_bit(*value))) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

/// "4" for all sizes, or "[256:1,512:2,>:8]": keys are MiB, powers of two. The first one counts for all smaller sizes
/// too, and ">" for the one before it and all larger sizes, as PyTorch has it.
std::optional<Divisions> parse_divisions(std::string_view text) {
  Divisions divisions{};
  if (!text.starts_with('[')) {
    const auto all = parse_division(text);
    if (!all) return std::nullopt;
    divisions.fill(*all);
    return divisions;
  }
  if (!text.ends_with(']')) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::size_t last = 0;
  for (bool first = true; !text.empty(); first = false) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view key = item.substr(0, colon);
    const auto value = parse_division(item.substr(colon + 1));
    if (!value) return std::nullopt;
    if (key == ">") {
      if (first) return std::nullopt;
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last), divisions.end(), *value);
      break;
    }
    const auto mib = parse_integer(key);
    if (!mib || !std::has_single_bit(*mib) || *mib > 1U << 15U) return std::nullopt;
    last = static_cast<std::size_t>(std::bit_width(*mib)) - 1;
    if (first) std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(last), *value);
    divisions[last] = *value;
  }
  return divisions;
}

std::string divisions_text(const Divisions& divisions) {
  if (std::ranges::all_of(divisions, [&](std::uint32_t d) { return d == divisions[0]; }))
    return std::to_string(divisions[0]);
  std::string text = "[";
  for (std::size_t i = 0; i < divisions.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(1U << i) + ":" + std::to_string(divisions[i]);
  return text + "]";
}

std::string fraction_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::optional<Bytes> parse_mib(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > std::uint64_t{1} << 30U) return std::nullopt;
  return 1_MiB * *value;
}

}  // namespace

Result<TorchSettings> TorchSettings::parse(const PolicySpec& spec) {
  TorchSettings settings;
  const auto& given = spec.parameters;
  if (const std::string& text = given.at(split_key); text != "unlimited") {
    const auto size = parse_mib(text);
    if (!size || *size < settings.large_segment)
      return bad_parameter(spec, split_key, "'unlimited' or a number of MiB from 20");
    settings.max_split_size = *size;
  }
  const auto rounding = parse_mib(given.at(non_split_key));
  if (!rounding || *rounding < 20_MiB) return bad_parameter(spec, non_split_key, "a number of MiB from 20");
  settings.max_non_split_rounding = *rounding;
  const auto segment = parse_mib(given.at(segment_key));
  if (!segment || *segment < min_own_segment) return bad_parameter(spec, segment_key, "a number of MiB from 10");
  settings.large_segment = *segment;
  const auto threshold = parse_fraction(given.at(threshold_key));
  if (!threshold || *threshold < 0 || *threshold >= 1)
    return bad_parameter(spec, threshold_key, "a fraction from 0 (off) to below 1");
  settings.garbage_collection_threshold = *threshold;
  const auto divisions = parse_divisions(given.at(divisions_key));
  if (!divisions)
    return bad_parameter(spec, divisions_key, "a power of two or a list such as [256:1,512:2,1024:4,>:8]");
  settings.divisions = *divisions;
  const std::string& expandable = given.at(expandable_key);
  if (expandable != "True" && expandable != "False") return bad_parameter(spec, expandable_key, "True or False");
  settings.expandable = expandable == "True";
  return settings;
}

TorchSettings TorchSettings::recorded(const std::map<std::string, std::string>& recorded) {
  TorchSettings settings;
  const auto bytes = [&](const char* key, Bytes& value) {
    const auto found = recorded.find(key);
    if (found == recorded.end()) return;
    if (const auto size = parse_integer(found->second); size && *size > 0) value = {*size};
  };
  bytes("max_split_size", settings.max_split_size);  // -1 is unlimited
  bytes("max_non_split_rounding_size", settings.max_non_split_rounding);
  bytes("large_segment_size", settings.large_segment);
  if (const auto found = recorded.find(threshold_key); found != recorded.end())
    settings.garbage_collection_threshold = parse_fraction(found->second).value_or(0);
  // The resolved table, one entry for each size: "[1:1,2:1,...,32768:8]".
  if (const auto found = recorded.find(divisions_key); found != recorded.end())
    settings.divisions = parse_divisions(found->second).value_or(Divisions{});
  if (const auto found = recorded.find(expandable_key); found != recorded.end())
    settings.expandable = found->second == "True";
  return settings;
}

PolicySpec TorchSettings::spec() const {
  const auto mib = [](Bytes size) { return std::to_string(size / 1_MiB); };
  return {.name = "torch.native",
          .parameters = {{split_key, max_split_size == unlimited ? "unlimited" : mib(max_split_size)},
                         {non_split_key, mib(max_non_split_rounding)},
                         {segment_key, mib(large_segment)},
                         {threshold_key, fraction_text(garbage_collection_threshold)},
                         {divisions_key, divisions_text(divisions)},
                         {expandable_key, expandable ? "True" : "False"}}};
}

Bytes TorchSettings::collected_below(Bytes reserved) const {
  if (garbage_collection_threshold <= 0) return {};
  const double capacity = static_cast<double>(reserved.count) / garbage_collection_threshold;
  return Bytes{static_cast<std::uint64_t>(std::min(std::ceil(capacity), 0x1p62))};
}

Bytes TorchSettings::round_to_division(Bytes size, std::uint32_t divisions) {
  const std::uint64_t floor = std::bit_floor(size.count);
  const std::uint64_t step = floor >> static_cast<unsigned>(std::countr_zero(divisions));
  return step == 0 ? Bytes{floor * 2} : round_up(size, Bytes{step});
}

}  // namespace memreel
