#include "analyzer/policies/torch_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "analyzer/policies/parameters.h"
#include "analyzer/policies/torch_conf.h"
#include "formats/model/limits.h"

namespace memreel {
namespace {

constexpr const char* split_key = "max_split_size_mb";
constexpr const char* non_split_key = "max_non_split_rounding_mb";
constexpr const char* segment_key = "large_segment_size_mb";
constexpr const char* divisions_key = "roundup_power2_divisions";
constexpr const char* expandable_key = "expandable_segments";
constexpr std::array conf_variables{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
constexpr const char* fraction_key = "per_process_memory_fraction";
// By TieBreak.
constexpr std::array<std::string_view, 3> tie_breaks{"address", "block_counter", "segment_counter"};
constexpr std::array<std::string_view, 3> tie_break_releases{"2.1 to 2.11", "2.12", "2.13 and newer"};
constexpr const char* threshold_key = "garbage_collection_threshold";

using Divisions = std::array<std::uint32_t, 16>;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint32_t> parse_division(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > 1U << 16U || (*value != 0 && !std::has_single_bit(*value))) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

/// "4" for all sizes, or "[256:1,512:2,>:8]": keys are MiB, powers of two, taken in turn. The first one counts for all
/// smaller sizes too, and ">" for all that are larger than the one before it. (Up to PyTorch 2.8 ">" changed that one,
/// too.)
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
      std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last) + 1, divisions.end(), *value);
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

/// The shortest text that parse_divisions turns into this.
std::string divisions_text(const Divisions& divisions) {
  const auto differs_from = [](std::uint32_t value) { return [value](std::uint32_t d) { return d != value; }; };
  const auto first = std::find_if(divisions.begin(), divisions.end(), differs_from(divisions.front()));
  if (first == divisions.end()) return std::to_string(divisions.front());
  const auto rest = std::find_if(divisions.rbegin(), divisions.rend(), differs_from(divisions.back())).base();
  std::string text = "[";
  for (auto each = first - 1; each != rest; ++each)
    text += std::to_string(1U << (each - divisions.begin())) + ":" + std::to_string(*each) + ",";
  return text + ">:" + std::to_string(divisions.back()) + "]";
}

std::string fraction_text(double value) {
  std::array<char, 512> text{};  // the smallest fraction has more than three hundred zeros
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr;
  return {text.data(), end};
}

std::optional<Bytes> parse_mib(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value > max_allocation / 1_MiB) return std::nullopt;
  return 1_MiB * *value;
}

/// What parse_mib() would make of some text.
bool is_mib(Bytes size) { return size <= max_allocation && size.count % (1_MiB).count == 0; }

}  // namespace

Result<TorchSettings> TorchSettings::parse(const PolicySpec& spec) {
  TorchSettings settings;
  const auto& given = spec.parameters;
  const auto segment = parse_mib(given.at(segment_key));
  if (!segment || *segment < min_own_segment) return bad_parameter(spec, segment_key, "a number of MiB from 10");
  settings.large_segment = *segment;
  const std::string least = std::to_string(settings.large_segment / 1_MiB);
  if (const std::string& text = given.at(split_key); text != "unlimited") {
    const auto size = parse_mib(text);
    if (!size || *size < settings.large_segment)
      return bad_parameter(spec, split_key,
                           "'unlimited' or a number of MiB from " + least + " (large_segment_size_mb)");
    settings.max_split_size = *size;
  }
  const auto rounding = parse_mib(given.at(non_split_key));
  if (!rounding || (*rounding < 20_MiB && *rounding != settings.large_segment))  // which is its default
    return bad_parameter(spec, non_split_key, "a number of MiB from 20");
  settings.max_non_split_rounding = *rounding;
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
  const auto fraction = parse_fraction(given.at(fraction_key));
  if (!fraction || *fraction < 0 || *fraction > 1) return bad_parameter(spec, fraction_key, "a fraction from 0 to 1");
  settings.memory_fraction = *fraction;
  const auto tie_break = std::find(tie_breaks.begin(), tie_breaks.end(), given.at(std::string(tie_break_key)));
  if (tie_break == tie_breaks.end())
    return bad_parameter(spec, std::string(tie_break_key), "'address', 'block_counter' or 'segment_counter'");
  settings.tie_break = static_cast<TieBreak>(tie_break - tie_breaks.begin());
  return settings;
}

std::optional<TorchSettings::TieBreak> TorchSettings::tie_break_of(std::string_view release) {
  constexpr std::string_view major = "2.";
  constexpr std::uint64_t numbers_blocks = 12;  // the minor release
  if (!release.starts_with(major)) return std::nullopt;
  release.remove_prefix(major.size());
  const auto minor = parse_integer(release.substr(0, release.find_first_not_of("0123456789")));
  if (!minor || *minor == 0) return std::nullopt;
  if (*minor < numbers_blocks) return TieBreak::address;
  return *minor == numbers_blocks ? TieBreak::block_counter : TieBreak::segment_counter;
}

std::string_view TorchSettings::releases_of(TieBreak tie_break) {
  return tie_break_releases[static_cast<std::size_t>(tie_break)];
}

double TorchSettings::recorded_fraction(const std::map<std::string, std::string>& settings) {
  double fraction = TorchSettings{}.memory_fraction;
  for (const char* variable : conf_variables)
    if (const auto conf = settings.find(variable); conf != settings.end())
      if (const auto given = parse_alloc_conf(conf->second)) fraction = given->memory_fraction;
  return fraction;
}

TorchSettings TorchSettings::recorded(const std::map<std::string, std::string>& settings) {
  TorchSettings result;
  for (const char* variable : conf_variables) {
    const auto conf = settings.find(variable);
    if (conf == settings.end()) continue;
    const auto given = parse_alloc_conf(conf->second);
    if (!given) continue;
    result = *given;
    result.memory_fraction = TorchSettings{}.memory_fraction;  // a limit shows in what was refused
  }
  if (const auto release = settings.find(std::string(release_key)); release != settings.end())
    result.tie_break = tie_break_of(release->second).value_or(TieBreak::address);
  // What a snapshot lists was in force, whatever the variable says; -1 stands for the default, which is no limit.
  const auto bytes = [&](const char* key, Bytes TorchSettings::*value) {
    const auto found = settings.find(key);
    if (found == settings.end()) return;
    const auto size = parse_integer(found->second);
    result.*value = size && *size > 0 ? Bytes{*size} : TorchSettings{}.*value;
  };
  bytes("max_split_size", &TorchSettings::max_split_size);
  bytes("large_segment_size", &TorchSettings::large_segment);
  bytes("max_non_split_rounding_size", &TorchSettings::max_non_split_rounding);
  if (const auto found = settings.find(threshold_key); found != settings.end())
    result.garbage_collection_threshold = parse_fraction(found->second).value_or(0);
  // What PyTorch would not have taken was not in force.
  if (!is_mib(result.large_segment) || result.large_segment < min_own_segment)
    result.large_segment = TorchSettings{}.large_segment;
  if (!is_mib(result.max_split_size) || result.max_split_size < result.large_segment) result.max_split_size = unlimited;
  if (!is_mib(result.max_non_split_rounding) ||
      (result.max_non_split_rounding < 20_MiB && result.max_non_split_rounding != result.large_segment))
    result.max_non_split_rounding = TorchSettings{}.max_non_split_rounding;
  if (!(result.garbage_collection_threshold >= 0 && result.garbage_collection_threshold < 1))
    result.garbage_collection_threshold = 0;
  // The resolved table, one entry for each size: "[1:1,2:1,...,32768:8]".
  if (const auto found = settings.find(divisions_key); found != settings.end())
    result.divisions = parse_divisions(found->second).value_or(Divisions{});
  if (const auto found = settings.find(expandable_key); found != settings.end())
    result.expandable = found->second == "True";
  return result;
}

PolicySpec TorchSettings::spec() const {
  const auto mib = [](Bytes size) { return std::to_string(size / 1_MiB); };
  return {.name = "torch.native",
          .parameters = {{split_key, max_split_size == unlimited ? "unlimited" : mib(max_split_size)},
                         {non_split_key, mib(max_non_split_rounding)},
                         {segment_key, mib(large_segment)},
                         {threshold_key, fraction_text(garbage_collection_threshold)},
                         {divisions_key, divisions_text(divisions)},
                         {expandable_key, expandable ? "True" : "False"},
                         {fraction_key, fraction_text(memory_fraction)},
                         {std::string(tie_break_key), std::string(tie_breaks[static_cast<std::size_t>(tie_break)])}}};
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
