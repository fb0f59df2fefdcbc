// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/settings.h"

#include <charconv>
#include <cmath>

#include "formats/model/quantity.h"
#include "formats/model/value_check.h"
#include "formats/torch/alloc_conf.h"

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

namespace {

constexpr std::string_view no_classes = "none";

std::string plain_number(double value) {
  std::array<char, 512> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed).ptr;
  return {digits.data(), end};
}

/// Calls `item(key, value)` for each "key:value" of a bracketed list until it returns false. Returns false if it did,
/// or if the text is not such a list.
template <class Item>
bool for_each_item(std::string_view text, const Item& item) {
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view pair = text.substr(0, end);
    const std::size_t colon = pair.find(':');
    if (colon == 0 || colon == std::string_view::npos) return false;
    if (!item(pair.substr(0, colon), pair.substr(colon + 1))) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

template <class Map, class Text>
std::string list_of(const Map& map, const Text& text) {
  std::string list;
  for (const auto& item : map) list += (list.empty() ? "[" : ",") + text(item);
  return list.empty() ? std::string(no_classes) : list + "]";
}

std::optional<std::uint64_t> parse_handle(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ReserveSize> ReserveSize::parse(std::string_view text) {
  const bool absolute = text.ends_with('G') || text.ends_with('g');
  if (absolute) text.remove_suffix(1);
  const auto value = parse_fraction(text, std::chars_format::general);
  if (!value || *value <= 0) return std::nullopt;
  return ReserveSize{.is_share = !absolute, .value = *value};
}

std::string ReserveSize::text() const { return plain_number(value) + (is_share ? "" : "G"); }

std::optional<Bytes> TorchReserve::limit(std::uint64_t stream) const {
  std::optional<ReserveSize> size = usual;
  if (const auto named = class_of_stream.find(stream); named != class_of_stream.end())
    if (const auto own = by_class.find(named->second); own != by_class.end()) size = own->second;
  if (!size || (size->is_share && !memory)) return std::nullopt;
  const double unit = static_cast<double>(size->is_share ? memory->count : (1_GiB).count);
  const double bytes = std::min(size->value * unit, 0x1p62);
  const Bytes limit{static_cast<std::uint64_t>(bytes)};
  return memory ? std::min(limit, *memory + Bytes{memory->count / 8}) : limit;
}

std::optional<std::map<std::string, ReserveSize>> TorchReserve::parse_classes(std::string_view text) {
  std::map<std::string, ReserveSize> classes;
  const bool good = text == no_classes || for_each_item(text, [&](std::string_view name, std::string_view value) {
                      const auto size = ReserveSize::parse(value);
                      if (size) classes.insert_or_assign(std::string(name), *size);
                      return size.has_value();
                    });
  return good ? std::optional(std::move(classes)) : std::nullopt;
}

std::optional<std::map<std::uint64_t, std::string>> TorchReserve::parse_streams(std::string_view text) {
  std::map<std::uint64_t, std::string> streams;
  const bool good = text == no_classes || for_each_item(text, [&](std::string_view handle, std::string_view name) {
                      const auto number = parse_handle(handle);
                      if (number) streams.insert_or_assign(*number, std::string(name));
                      return number.has_value() && !name.empty();
                    });
  return good ? std::optional(std::move(streams)) : std::nullopt;
}

std::string TorchReserve::classes_text() const {
  return list_of(by_class, [](const auto& item) { return item.first + ":" + item.second.text(); });
}

std::string TorchReserve::streams_text() const {
  return list_of(class_of_stream, [](const auto& item) { return hexadecimal(item.first) + ":" + item.second; });
}

namespace {

constexpr std::string_view no_limit = "unlimited";

std::string host_mib_text(Bytes size) {
  return size == TorchHostSettings::unlimited ? std::string(no_limit) : std::to_string(size / 1_MiB);
}

}  // namespace

std::map<std::string, std::string> TorchHostSettings::parameters() const {
  return {{threshold_key, host_mib_text(round_threshold)},
          {cached_key, host_mib_text(cached)},
          {reserve_key, host_mib_text(reserve)}};
}

Result<TorchHostSettings> TorchHostSettings::parse(const std::map<std::string, std::string>& parameters,
                                                   std::string_view policy) {
  TorchHostSettings settings;
  for (const auto& [key, value] :
       {std::pair{threshold_key, &TorchHostSettings::round_threshold},
        std::pair{cached_key, &TorchHostSettings::cached}, std::pair{reserve_key, &TorchHostSettings::reserve}}) {
    const auto given = parameters.find(key);
    if (given == parameters.end()) continue;
    const bool limits = key != reserve_key;
    const auto mib = parse_integer(given->second);
    if (limits && given->second == no_limit)
      settings.*value = unlimited;
    else if (mib && *mib <= max_allocation / 1_MiB)
      settings.*value = 1_MiB * *mib;
    else
      return Error{.what = std::string("parameter ") + key + "=" + given->second + " of policy " + std::string(policy) +
                           " is not " + (limits ? "'unlimited' or a number of MiB" : "a number of MiB, 0 for none")};
  }
  return settings;
}

TorchHostSettings TorchHostSettings::recorded(const std::map<std::string, std::string>& settings) {
  TorchHostSettings result;
  const TorchRelease release = TorchRelease::recorded(settings).value_or(TorchRelease{});
  if (const auto given = read_alloc_conf(recorded_conf(settings, release), release)) result = given->host;
  for (const auto& [key, value] : {std::pair{"max_round_threshold", &TorchHostSettings::round_threshold},
                                   std::pair{"max_cached_size", &TorchHostSettings::cached}})
    if (const auto listed = settings.find(key); listed != settings.end()) {
      const auto size = parse_integer(listed->second);
      result.*value = size && *size <= max_allocation.count ? Bytes{*size} : unlimited;
    }
  return result;
}

namespace {

constexpr const char* split_key = "max_split_size_mb";
constexpr const char* non_split_key = "max_non_split_rounding_mb";
constexpr const char* segment_key = "large_segment_size_mb";
constexpr const char* divisions_key = "roundup_power2_divisions";
constexpr const char* expandable_key = "expandable_segments";
constexpr const char* fraction_key = "per_process_memory_fraction";
constexpr const char* threshold_key = "garbage_collection_threshold";
constexpr const char* reserve_key = "expandable_segments_reserve";
constexpr const char* classes_key = "expandable_segments_reserve_by_class";
constexpr const char* streams_key = "reserve_class_of_stream";
constexpr const char* search_key = "search_after_release";
constexpr const char* oversize_key = "expandable_ignores_oversize";
constexpr const char* full_reserve = "full";

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

/// Whether parse_mib() could return this size.
bool is_mib(Bytes size) { return size <= max_allocation && size.count % (1_MiB).count == 0; }

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "True" || text == "False") return text == "True";
  return std::nullopt;
}

const char* boolean_text(bool value) { return value ? "True" : "False"; }

/// The settings as texts, and the error for one of them.
struct Given {
  const std::map<std::string, std::string>& texts;
  std::string_view policy;

  const std::string& at(const char* key) const { return texts.at(key); }
  Error bad(const std::string& key, std::string_view expected) const {
    return {.what = "parameter " + key + "=" + texts.at(key) + " of policy " + std::string(policy) + " is not " +
                    std::string(expected)};
  }
};

Result<TorchReserve> parse_reserve(const Given& given) {
  TorchReserve reserve;
  if (const std::string& text = given.at(reserve_key); text != full_reserve) {
    reserve.usual = ReserveSize::parse(text);
    if (!reserve.usual)
      return given.bad(reserve_key, "'full', a share of the device's memory such as 0.5, or GiB such as 40G");
  }
  const auto classes = TorchReserve::parse_classes(given.at(classes_key));
  if (!classes) return given.bad(classes_key, "'none' or a list such as [weights:0.5,serving:40G]");
  const auto streams = TorchReserve::parse_streams(given.at(streams_key));
  if (!streams) return given.bad(streams_key, "'none' or a list such as [0:weights,0x7f00:serving]");
  reserve.by_class = *classes;
  reserve.class_of_stream = *streams;
  return reserve;
}

}  // namespace

Result<TorchSettings> TorchSettings::parse(const std::map<std::string, std::string>& parameters,
                                           std::string_view policy) {
  TorchSettings settings;
  const Given given{parameters, policy};
  const std::string own_release_key(release_key);
  const auto release = TorchRelease::parse(given.at(own_release_key.c_str()));
  if (!release) return given.bad(own_release_key, "a release of PyTorch from 2.1 on");
  settings.release = *release;
  const auto segment = parse_mib(given.at(segment_key));
  if (!segment || *segment < min_own_segment) return given.bad(segment_key, "a number of MiB from 10");
  settings.large_segment = *segment;
  const std::string least = std::to_string(settings.large_segment / 1_MiB);
  if (const std::string& text = given.at(split_key); text != "unlimited") {
    const auto size = parse_mib(text);
    if (!size || *size < settings.large_segment)
      return given.bad(split_key, "'unlimited' or a number of MiB from " + least + " (large_segment_size_mb)");
    settings.max_split_size = *size;
  }
  const auto rounding = parse_mib(given.at(non_split_key));
  if (!rounding || *rounding < std::min(20_MiB, settings.large_segment))
    return given.bad(non_split_key, "a number of MiB from 20");
  settings.max_non_split_rounding = *rounding;
  const auto threshold = parse_fraction(given.at(threshold_key));
  if (!threshold || *threshold < 0 || *threshold >= 1)
    return given.bad(threshold_key, "a fraction from 0 (off) to below 1");
  settings.garbage_collection_threshold = *threshold;
  const auto divisions = parse_power2_divisions(given.at(divisions_key), *release);
  if (!divisions) return given.bad(divisions_key, "a power of two or a list such as [256:1,512:2,1024:4,>:8]");
  settings.divisions = *divisions;
  for (const auto& [key, flag] : {std::pair{expandable_key, &TorchSettings::expandable},
                                  std::pair{search_key, &TorchSettings::search_after_release},
                                  std::pair{oversize_key, &TorchSettings::expandable_ignores_oversize}}) {
    const auto value = parse_boolean(given.at(key));
    if (!value) return given.bad(key, "True or False");
    settings.*flag = *value;
  }
  const Result<TorchReserve> reserve = parse_reserve(given);
  if (!reserve) return reserve.error();
  settings.reserve = *reserve;
  const auto fraction = parse_fraction(given.at(fraction_key));
  if (!fraction || *fraction < 0 || *fraction > 1) return given.bad(fraction_key, "a fraction from 0 to 1");
  settings.memory_fraction = *fraction;
  return settings;
}

bool TorchSettings::is_own_key(std::string_view key) {
  return key == release_key || key == streams_key || key == search_key || key == oversize_key;
}

double TorchSettings::recorded_fraction(const std::map<std::string, std::string>& settings) {
  const TorchRelease release = TorchRelease::recorded(settings).value_or(TorchRelease{});
  const auto given = read_alloc_conf(recorded_conf(settings, release), release);
  return given ? given->device.memory_fraction : TorchSettings{}.memory_fraction;
}

TorchSettings TorchSettings::recorded(const std::map<std::string, std::string>& settings) {
  TorchSettings result;
  result.release = TorchRelease::recorded(settings).value_or(TorchRelease{});
  if (const auto given = read_alloc_conf(recorded_conf(settings, result.release), result.release))
    result = given->device;
  result.memory_fraction = TorchSettings{}.memory_fraction;  // its effect shows in refused requests
  // The values listed in a snapshot were in effect, whatever the text says; -1 stands for the default, no limit. Values
  // that PyTorch would not have accepted were not.
  const auto listed = [&](const char* key) -> std::optional<Bytes> {
    const auto found = settings.find(key);
    if (found == settings.end()) return std::nullopt;
    const auto size = parse_integer(found->second);
    return size && is_mib({*size}) ? Bytes{*size} : Bytes{};
  };
  if (const auto segment = listed("large_segment_size")) {
    const bool follows = result.max_non_split_rounding == result.large_segment;
    result.large_segment = *segment > min_own_segment ? *segment : TorchSettings{}.large_segment;
    if (follows) result.max_non_split_rounding = result.large_segment;
  }
  if (const auto split = listed("max_split_size")) result.max_split_size = *split > 0_B ? *split : unlimited;
  if (result.max_split_size < result.large_segment) result.max_split_size = unlimited;
  if (const auto rounding = listed("max_non_split_rounding_size")) result.max_non_split_rounding = *rounding;
  if (result.max_non_split_rounding < std::min(20_MiB, result.large_segment))
    result.max_non_split_rounding = result.large_segment;
  if (const auto found = settings.find(threshold_key); found != settings.end()) {
    const double share = parse_fraction(found->second, std::chars_format::general).value_or(0);
    result.garbage_collection_threshold = share > 0 && share < 1 ? share : 0;
  }
  // The resolved table, one entry per size: "[1:1,2:1,...,32768:8]".
  if (const auto found = settings.find(divisions_key); found != settings.end())
    result.divisions = parse_power2_divisions(found->second, result.release).value_or(Power2Divisions{});
  if (const auto found = settings.find(expandable_key); found != settings.end())
    result.expandable = found->second == "True";
  return result;
}

std::map<std::string, std::string> TorchSettings::parameters() const {
  const auto mib = [](Bytes size) { return std::to_string(size / 1_MiB); };
  return {{split_key, max_split_size == unlimited ? "unlimited" : mib(max_split_size)},
          {non_split_key, mib(max_non_split_rounding)},
          {segment_key, mib(large_segment)},
          {threshold_key, fraction_text(garbage_collection_threshold)},
          {divisions_key, power2_divisions_text(divisions, release)},
          {expandable_key, boolean_text(expandable)},
          {reserve_key, reserve.usual ? reserve.usual->text() : full_reserve},
          {classes_key, reserve.classes_text()},
          {streams_key, reserve.streams_text()},
          {search_key, boolean_text(search_after_release)},
          {oversize_key, boolean_text(expandable_ignores_oversize)},
          {fraction_key, fraction_text(memory_fraction)},
          {std::string(release_key), release.text()}};
}

Bytes TorchSettings::collected_below(Bytes reserved) const {
  if (garbage_collection_threshold <= 0) return {};
  const double capacity = static_cast<double>(reserved.count) / garbage_collection_threshold;
  return Bytes{static_cast<std::uint64_t>(std::min(std::ceil(capacity), 0x1p62))};
}

}  // namespace memreel
