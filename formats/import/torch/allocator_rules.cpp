#include "formats/import/torch/allocator_rules.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace memreel::torch {
namespace {

constexpr Bytes min_large_alloc = 10_MiB;  // requests from here on get a segment sized for them
constexpr Bytes round_large = 2_MiB;
constexpr Bytes largest_request{std::uint64_t{1} << 62U};

/// -1 and None, which mean no limit, don't parse as unsigned numbers and change nothing.
template <class Number>
void read(std::string_view text, Number& into) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) into = value;
}

void read(std::string_view text, Bytes& into) { read(text, into.count); }

void read_divisions(std::string_view text, Power2Divisions& divisions, RestOfList rest) {
  if (const auto given = parse_power2_divisions(text, rest)) divisions = *given;
}

/// The value of a key in PYTORCH_CUDA_ALLOC_CONF, which has the settings that PyTorch does not list; before 2.3 that is
/// all of them.
std::string_view value_in_conf(std::string_view conf, std::string_view key) {
  const std::size_t found = conf.find(key);
  if (found == std::string_view::npos) return {};
  conf.remove_prefix(found + key.size());
  return conf.substr(0, conf.starts_with('[') ? conf.find(']') + 1 : conf.find(','));
}

void read_mib_from_conf(std::string_view conf, std::string_view key, Bytes& into) {
  std::uint64_t mib = 0;
  read(value_in_conf(conf, key), mib);
  if (mib > 0 && mib < std::uint64_t{1} << 30U) into = 1_MiB * mib;
}

void read_conf(std::string_view conf, AllocatorRules& rules) {
  read_mib_from_conf(conf, "large_segment_size_mb:", rules.large_buffer);
  rules.max_non_split_rounding = rules.large_buffer;  // its default
  read_mib_from_conf(conf, "max_non_split_rounding_mb:", rules.max_non_split_rounding);
  read_mib_from_conf(conf, "max_split_size_mb:", rules.max_split_size);
  read(value_in_conf(conf, "garbage_collection_threshold:"), rules.garbage_collection_threshold);
  rules.expandable = value_in_conf(conf, "expandable_segments:") == "True";
  // A snapshot whose settings lack the table is from 2.1 or 2.2, or from a source that reads lists the same way.
  read_divisions(value_in_conf(conf, "roundup_power2_divisions:"), rules.divisions, RestOfList::from_last);
}

}  // namespace

AllocatorRules AllocatorRules::of(const Snapshot& snapshot) {
  AllocatorRules rules;
  for (const auto& [key, value] : snapshot.settings)
    if (key.ends_with("ALLOC_CONF")) read_conf(value, rules);
  for (const auto& [key, value] : snapshot.settings) {
    if (key == "garbage_collection_threshold") read(value, rules.garbage_collection_threshold);
    if (key == "max_split_size") {
      rules.max_split_size = AllocatorRules{}.max_split_size;  // -1: none
      read(value, rules.max_split_size);
    }
    if (key == "max_non_split_rounding_size") read(value, rules.max_non_split_rounding);
    if (key == "roundup_power2_divisions") read_divisions(value, rules.divisions, RestOfList::above_last);
    if (key == "expandable_segments") rules.expandable = value == "True";
  }
  switch (snapshot.release) {
    case ShownRelease::v2_1:
    case ShownRelease::v2_2:
    case ShownRelease::v2_3:
      rules.ones_are_exact = true;
      [[fallthrough]];
    case ShownRelease::v2_3_or_2_4:
      rules.expands_private_pools = false;
      break;
    default:
      break;
  }
  return rules;
}

Bytes AllocatorRules::rounded(Bytes request) const {
  const Bytes size = std::clamp(request, 1_B, largest_request);
  return round_request(size, divisions, block_size, ones_are_exact);
}

Bytes AllocatorRules::segment_size(Bytes rounded) const {
  if (is_small(rounded)) return small_buffer;
  if (rounded < min_large_alloc) return large_buffer;
  return round_up(rounded, round_large);
}

}  // namespace memreel::torch
