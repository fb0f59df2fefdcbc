#include "formats/torch/settings.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "formats/model/limits.h"
#include "formats/model/numbers.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
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
