#include "analyzer/tune/setting_facts.h"

#include <algorithm>
#include <array>

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

std::vector<const SettingFacts*> facts_of_changes(const PolicySpec& from, const PolicySpec& to) {
  std::vector<const SettingFacts*> changed;
  for (const SettingFacts& setting : facts) {
    const auto before = from.parameters.find(std::string(setting.key)),
               after = to.parameters.find(std::string(setting.key));
    if (after == to.parameters.end() || (before != from.parameters.end() && before->second == after->second)) continue;
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

}  // namespace memreel
