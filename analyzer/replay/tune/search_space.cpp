// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/search_space.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "analyzer/replay/policies/torch_host.h"
#include "analyzer/replay/registry.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

constexpr std::array facts{
    SettingFacts{
        .key = "expandable_segments",
        .effect = "segments grow and shrink page by page: free memory of any size serves any request of its stream",
        .side_effects =
            "cudaIpcGetMemHandle refuses its memory, so the custom all-reduce of vLLM and SGLang and other CUDA IPC "
            "fail; pools with an allocator of their own, as for sleep modes, may refuse it; some NCCL "
            "registrations of user buffers fail",
        .source = "vllm#42609, sglang#27593, pytorch#147851"},
    SettingFacts{.key = "max_split_size_mb",
                 .effect = "blocks of at least this size are never split",
                 .side_effects =
                     "large requests of unequal size share nothing: each size keeps a segment of its own, and there "
                     "are more calls of cudaMalloc",
                 .source = "release_available_cached_blocks in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{
        .key = "garbage_collection_threshold",
        .effect = "releases blocks unused for long while more than this share of the memory fraction is reserved",
        .side_effects = "nothing is collected unless the program sets a memory fraction below 1; each release waits "
                        "for the device",
        .source = "pytorch#106660, pytorch#150917"},
    SettingFacts{.key = "roundup_power2_divisions",
                 .effect = "rounds sizes up, so that similar requests share blocks",
                 .side_effects = "each request holds more: with 4 divisions up to a quarter",
                 .source = "round_size in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{.key = "large_segment_size_mb",
                 .effect = "size of the segments that requests of 1 to 10 MiB share",
                 .side_effects = "the last segment may be mostly empty",
                 .source = "get_allocation_size in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{.key = "max_non_split_rounding_mb",
                 .effect = "how much larger a block that is never split may be than its request",
                 .side_effects = "each such request holds up to this much more",
                 .source = "get_free_block in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{.key = "expandable_segments_reserve",
                 .effect = "size of the address range of an expandable segment",
                 .side_effects = {},
                 .source = {}},
    SettingFacts{.key = "expandable_segments_reserve_by_class",
                 .effect = "the same for classes of streams",
                 .side_effects = {},
                 .source = {}},
    SettingFacts{.key = "pinned_max_round_threshold_mb",
                 .effect = "larger requests of pinned host memory are not rounded up to a power of two",
                 .side_effects = "blocks of unequal size serve each other less often: more calls of cudaHostAlloc",
                 .source = "c10/core/CachingHostAllocator.h"},
    SettingFacts{.key = "pinned_max_cached_size_mb",
                 .effect = "larger blocks of pinned host memory go back to the system when freed",
                 .side_effects = "each such request page-locks its memory anew, which takes milliseconds",
                 .source = "c10/core/CachingHostAllocator.h"},
};

}  // namespace

std::span<const SettingFacts> setting_facts() { return facts; }

namespace {

/// Unless set, it equals the segment size (torch_spec.h).
bool is_derived(const PolicySpec& spec, std::string_view key) {
  const auto of = spec.parameters.find("large_segment_size_mb"), to = spec.parameters.find(std::string(key));
  return key == "max_non_split_rounding_mb" && of != spec.parameters.end() && of->second == to->second;
}

}  // namespace

std::vector<const SettingFacts*> facts_of_changes(const PolicySpec& from, const PolicySpec& to) {
  std::vector<const SettingFacts*> changed;
  for (const SettingFacts& setting : facts) {
    const auto before = from.parameters.find(std::string(setting.key)),
               after = to.parameters.find(std::string(setting.key));
    if (after == to.parameters.end() || (before != from.parameters.end() && before->second == after->second)) continue;
    if (is_derived(to, setting.key)) continue;
    changed.push_back(&setting);
  }
  return changed;
}

std::string side_effects_of(const PolicySpec& from, const PolicySpec& to) {
  std::string text;
  for (const SettingFacts* const setting : facts_of_changes(from, to)) {
    if (setting->side_effects.empty()) continue;
    const bool expands = setting->key == "expandable_segments" && to.parameters.at("expandable_segments") != "True";
    if (expands) continue;  // it is switched off
    text += (text.empty() ? "" : ". ") + std::string(setting->key) + ": " + std::string(setting->side_effects);
  }
  return text.empty() ? text : text + ".";
}

std::string misread_settings(const std::map<std::string, std::string>& recorded) {
  const TorchRelease release = TorchRelease::recorded(recorded).value_or(TorchRelease{});
  const std::string_view counts = recorded_conf(recorded, release);
  for (const std::string variable : conf_variables) {
    const auto conf = recorded.find(variable);
    if (conf == recorded.end() || conf->second.empty()) continue;
    if (conf->second.data() != counts.data())
      return variable + " is not read " +
             (release.has(torch_rule::reads_other_variables)
                  ? "where " + std::string(conf_variables.front()) + " is set"
                  : "before PyTorch 2." + std::to_string(torch_rule::reads_other_variables.first) + ", only " +
                        conf_variables.front() + " is");
    const auto given = read_alloc_conf(conf->second, release);
    if (!given) return variable + ": " + given.error().what;
    const auto in_force = recorded.find("expandable_segments");
    if (in_force != recorded.end() && given->device.expandable != (in_force->second == "True"))
      return variable + " says expandable_segments:" + (given->device.expandable ? "True" : "False") + ", but " +
             in_force->second + " is in force: the program changed it, or set the variable too late";
  }
  return {};
}

std::vector<std::string> ignored_settings(const std::map<std::string, std::string>& recorded) {
  const TorchRelease release = TorchRelease::recorded(recorded).value_or(TorchRelease{});
  const std::string_view counts = recorded_conf(recorded, release);
  std::vector<std::string> ignored;
  for (const char* const variable : conf_variables) {
    const auto conf = recorded.find(variable);
    if (conf == recorded.end()) continue;
    for (const auto& [name, value] : settings_in(conf->second)) {
      const ConfKey* const key = conf_key(name);
      const bool is_read = conf->second.data() == counts.data() && key != nullptr && release.has(key->releases);
      if (!is_read) ignored.push_back(value.empty() ? name : name + ":" + value);
    }
  }
  return ignored;
}

namespace {

constexpr std::size_t most_thresholds = 14;  // of max_split_size_mb

/// Total requested bytes, by request size in whole MiB.
std::map<std::uint64_t, std::uint64_t> bytes_by_size(std::span<const Prepared> heaps) {
  std::map<std::uint64_t, std::uint64_t> bytes;
  for (const Prepared& heap : heaps)
    for (std::size_t row = 0; row < heap.count(); ++row)
      if (heap.op[row] == Op::alloc) bytes[heap.size[row] / 1_MiB] += heap.size[row].count;
  return bytes;
}

/// max_split_size_mb: blocks of at least the threshold are oversize. Tries a threshold for each tenth of the bytes in
/// requests that it may apply to, and the round numbers that people try.
std::vector<std::string> split_thresholds(const std::map<std::uint64_t, std::uint64_t>& bytes) {
  constexpr std::uint64_t least = 20;
  const auto first = bytes.lower_bound(least);
  if (first == bytes.end()) return {};
  double total = 0;
  for (auto size = first; size != bytes.end(); ++size) total += static_cast<double>(size->second);
  std::vector<std::uint64_t> thresholds;
  const auto add = [&](std::uint64_t mib) {
    if (std::ranges::find(thresholds, mib) == thresholds.end()) thresholds.push_back(mib);
  };
  double so_far = 0;
  double next = 0;  // share of the bytes at which the next threshold is due
  for (auto size = first; size != bytes.end(); ++size) {
    so_far += static_cast<double>(size->second) / total;
    if (so_far < next) continue;
    add(size->first);
    next = so_far + 0.1;
  }
  const std::uint64_t largest = bytes.rbegin()->first;
  for (const std::uint64_t round : {128U, 64U, 256U, 512U, 32U, 1024U})
    if (round <= largest && thresholds.size() < most_thresholds) add(round);
  std::vector<std::string> texts;
  texts.reserve(thresholds.size());
  for (const std::uint64_t mib : thresholds) texts.push_back(std::to_string(mib));
  return texts;
}

/// roundup_power2_divisions: for all sizes, and for large ones only.
std::vector<std::string> divisions(std::uint64_t largest_mib) {
  std::vector<std::string> values{"4", "8", "2", "16", "32"};
  if (largest_mib >= 16) values.insert(values.end(), {"[8:1,16:4,>:4]", "[8:1,16:8,>:8]"});
  if (largest_mib >= 128) values.insert(values.end(), {"[64:1,128:4,>:4]", "[64:1,128:8,>:8]"});
  if (largest_mib >= 256) values.emplace_back("[256:1,512:2,1024:4,>:8]");
  return values;
}

/// For pinned host memory. A cache limit is for large blocks: without a cache each request is a CUDA call, which
/// page-locks its memory again.
std::vector<Dimension> pinned_memory_space(const PolicySpec& baseline, std::uint64_t largest_mib) {
  std::vector<Dimension> space{{.parameter = TorchHostSettings::threshold_key, .values = {}},
                               {.parameter = TorchHostSettings::cached_key, .values = {}}};
  for (Dimension& dimension : space) {
    const bool rounds = dimension.parameter == TorchHostSettings::threshold_key;
    dimension.values.emplace_back("unlimited");
    for (const std::uint64_t mib : {0U, 1U, 4U, 16U, 64U, 256U, 1024U})
      if (mib <= largest_mib && (rounds || mib >= 64)) dimension.values.push_back(std::to_string(mib));
    std::erase(dimension.values, baseline.parameters.at(dimension.parameter));
  }
  return space;
}

bool has_fraction(const PolicySpec& spec) {
  const auto fraction = spec.parameters.find("per_process_memory_fraction");
  return fraction != spec.parameters.end() && fraction->second != "1";
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_:.,-+/=").find(c) != std::string_view::npos;
}

constexpr const char* segment_key = "large_segment_size_mb";
constexpr const char* rounding_key = "max_non_split_rounding_mb";

/// Whether the second follows the first, PyTorch's default.
bool rounding_follows(const PolicySpec& spec) {
  const auto segment = spec.parameters.find(segment_key), rounding = spec.parameters.find(rounding_key);
  return segment != spec.parameters.end() && rounding != spec.parameters.end() && segment->second == rounding->second;
}

void set(PolicySpec& spec, const std::string& parameter, const std::string& value) {
  const bool follows = parameter == segment_key && rounding_follows(spec);
  spec.parameters[parameter] = value;
  if (follows) spec.parameters[rounding_key] = value;
}

/// Counts up through the digits of a number whose k-th digit is below bases[k]. Returns false after the last.
bool count_up(std::vector<std::size_t>& digits, std::span<const std::size_t> bases) {
  for (std::size_t k = 0; k < digits.size(); ++k) {
    if (++digits[k] < bases[k]) return true;
    digits[k] = 0;
  }
  return false;
}

}  // namespace

bool has_settings(const PolicySpec& spec) {
  return spec.name == "torch.native" || spec.name == TorchHostSettings::policy;
}

std::vector<Dimension> search_space(std::span<const Prepared> heaps, const PolicySpec& baseline, bool sets_fraction) {
  const std::map<std::uint64_t, std::uint64_t> bytes = bytes_by_size(heaps);
  const std::uint64_t largest = bytes.empty() ? 0 : bytes.rbegin()->first;
  if (baseline.name == TorchHostSettings::policy) return pinned_memory_space(baseline, largest);
  const bool shares_segments = std::ranges::any_of(
      bytes, [](const auto& size) { return size.first >= 1 && 1_MiB * size.first < TorchSettings::min_own_segment; });

  std::vector<Dimension> space;
  const auto add = [&](const char* parameter, std::vector<std::string> values) {
    const auto current = baseline.parameters.find(parameter);
    if (current == baseline.parameters.end()) return;  // a setting that this build's policy lacks
    const auto defaults = defaults_of(find_policy("torch.native")->info.parameters);
    values.insert(values.begin(), defaults.at(parameter));  // to undo the program's own setting
    Dimension dimension{.parameter = parameter};
    for (const std::string& value : values)
      if (value != current->second && std::ranges::find(dimension.values, value) == dimension.values.end())
        dimension.values.push_back(value);
    if (!dimension.values.empty()) space.push_back(std::move(dimension));
  };
  add("expandable_segments", {"True"});
  add("max_split_size_mb", split_thresholds(bytes));
  add("roundup_power2_divisions", divisions(largest));
  add(segment_key, shares_segments ? std::vector<std::string>{"32", "64", "128", "16"} : std::vector<std::string>{});
  add("garbage_collection_threshold", sets_fraction || has_fraction(baseline)
                                          ? std::vector<std::string>{"0.8", "0.6", "0.9", "0.95"}
                                          : std::vector<std::string>{});
  add(rounding_key, {});
  return space;
}

std::vector<PolicySpec> single_changes(const PolicySpec& baseline, std::span<const Dimension> dimensions) {
  std::vector<PolicySpec> specs;
  for (const Dimension& dimension : dimensions) {
    for (const std::string& value : dimension.values) {
      specs.push_back(baseline);
      set(specs.back(), dimension.parameter, value);
    }
  }
  return specs;
}

std::vector<PolicySpec> combined_changes(const PolicySpec& baseline, std::span<const Dimension> dimensions) {
  std::vector<PolicySpec> specs;
  std::vector<std::size_t> bases;
  for (const Dimension& dimension : dimensions) bases.push_back(dimension.values.size() + 1);
  std::vector<std::size_t> choice(dimensions.size());  // 0: as in the baseline
  while (count_up(choice, bases)) {
    if (std::ranges::count_if(choice, [](std::size_t c) { return c > 0; }) < 2) continue;
    PolicySpec spec = baseline;
    for (std::size_t k = 0; k < choice.size(); ++k)
      if (choice[k] > 0) set(spec, dimensions[k].parameter, dimensions[k].values[choice[k] - 1]);
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<std::string> changed_parameters(const PolicySpec& from, const PolicySpec& to) {
  std::vector<std::string> changed;
  for (const auto& [key, value] : to.parameters) {
    if (key == rounding_key && rounding_follows(to)) continue;
    const auto before = from.parameters.find(key);
    if (before == from.parameters.end() || before->second != value) changed.push_back(key);
  }
  return changed;
}

std::size_t changes(const PolicySpec& from, const PolicySpec& to) { return changed_parameters(from, to).size(); }

int specificity(const PolicySpec& from, const PolicySpec& to) {
  int digits = 0;
  for (const auto& [name, value] : to.parameters) {
    const auto before = from.parameters.find(name);
    if (before != from.parameters.end() && before->second == value) continue;
    std::uint64_t number = 0;
    const auto [rest, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (problem == std::errc{} && number != 0) digits += 64 - std::countl_zero(number) - std::countr_zero(number);
  }
  return digits;
}

bool only_expands(const PolicySpec& from, const PolicySpec& to) {
  constexpr const char* key = "expandable_segments";
  const auto before = from.parameters.find(key), after = to.parameters.find(key);
  return changes(from, to) == 1 && before != from.parameters.end() && after != to.parameters.end() &&
         before->second != "True" && after->second == "True";
}

std::string conf_of(const PolicySpec& spec) {
  if (spec.name == TorchHostSettings::policy) {
    const auto settings = TorchHostSettings::parse(spec.parameters);
    return settings ? alloc_conf(*settings) : std::string();
  }
  const auto settings = TorchSettings::parse(spec.parameters, spec.name);
  return settings ? alloc_conf(*settings) : std::string();
}

std::string name_of_settings(const std::string& conf) { return conf.empty() ? std::string(pytorch_defaults) : conf; }

bool ran_on_windows(const Tables& tables) {
  return std::ranges::any_of(tables.strings, [](const std::string& text) {
    return text.size() > 3 && text[0] >= 'A' && text[0] <= 'Z' && text[1] == ':' &&
           (text[2] == '\\' || text[2] == '/') && text.ends_with(".py");
  });
}

std::string export_line(const std::string& conf) {
  const bool plain = std::ranges::all_of(conf, is_plain);
  return "export PYTORCH_CUDA_ALLOC_CONF=" + (plain ? conf : "'" + conf + "'");
}

std::string needs_release(const PolicySpec& spec) {
  const auto defaults = defaults_of(find_policy(spec.name)->info.parameters);
  const auto is_set = [&](const std::string& key) {
    const auto found = spec.parameters.find(key);
    return found != spec.parameters.end() && found->second != defaults.at(key);
  };
  unsigned newest = 1;
  for (const auto& [key, value] : spec.parameters)
    if (const ConfKey* known = conf_key(key); known != nullptr && is_set(key))
      newest = std::max(newest, known->releases.first);
  return newest == 1 ? std::string() : TorchRelease{newest}.text();
}

std::string needs_release(const PolicySpec& spec, bool precedes) {
  const std::string release = needs_release(spec);
  const auto expands = spec.parameters.find("expandable_segments");
  const bool is_new = precedes && expands != spec.parameters.end() && expands->second == "True";
  return release.empty() && is_new ? TorchRelease{1}.text() : release;
}

bool precede_rules(std::span<const Prepared> heaps) {
  return std::ranges::any_of(heaps, [](const Prepared& heap) { return TorchRelease::precedes_rules(heap.settings); });
}

bool is_widely_usable(const PolicySpec& spec, const PolicySpec& baseline, bool states_release) {
  // There, none has any: each is a choice among new ones.
  if (spec.name == TorchHostSettings::policy) return true;
  const auto needed = TorchRelease::parse(needs_release(spec));
  const auto had = TorchRelease::parse(needs_release(baseline));
  if (!needed || (had && had->minor >= needed->minor)) return true;
  const auto named = spec.parameters.find(std::string(TorchSettings::release_key));
  const auto release = named == spec.parameters.end() ? std::nullopt : TorchRelease::parse(named->second);
  return release && (states_release || *release != TorchRelease{}) && release->minor >= needed->minor;
}

}  // namespace memreel
