#include "analyzer/tune/setting_facts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "analyzer/policies/torch_conf.h"

namespace memreel {
namespace {

constexpr std::array facts{
    SettingFacts{
        .key = "expandable_segments",
        .effect = "segments grow and shrink page by page: free memory of any size serves any request of its stream",
        .since = {},
        .side_effects =
            "cudaIpcGetMemHandle refuses its memory, so the custom all-reduce of vLLM and SGLang and other CUDA IPC "
            "fail; pools with an allocator of their own, as for sleep modes, may refuse it; some NCCL "
            "registrations of user buffers fail",
        .source = "vllm#42609, sglang#27593, pytorch#147851"},
    SettingFacts{.key = "max_split_size_mb",
                 .effect = "blocks of at least this size are never split",
                 .since = {},
                 .side_effects =
                     "large requests of unequal size share nothing: each size keeps a segment of its own, and there "
                     "are more calls of cudaMalloc",
                 .source = "release_available_cached_blocks in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{
        .key = "garbage_collection_threshold",
        .effect = "releases blocks unused for long while more than this share of the memory fraction is reserved",
        .since = {},
        .side_effects = "nothing is collected unless the program sets a memory fraction below 1; each release waits "
                        "for the device",
        .source = "pytorch#106660, pytorch#150917"},
    SettingFacts{.key = "roundup_power2_divisions",
                 .effect = "rounds sizes up, so that similar requests share blocks",
                 .since = {},
                 .side_effects = "each request holds more: with 4 divisions up to a quarter",
                 .source = "round_size in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{.key = "large_segment_size_mb",
                 .effect = "size of the segments that requests of 1 to 10 MiB share",
                 .since = "2.11",
                 .side_effects = "the last segment may be mostly empty",
                 .source = "get_allocation_size in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{.key = "max_non_split_rounding_mb",
                 .effect = "how much larger a block that is never split may be than its request",
                 .since = "2.6",
                 .side_effects = "each such request holds up to this much more",
                 .source = "get_free_block in c10/cuda/CUDACachingAllocator.cpp"},
    SettingFacts{.key = "expandable_segments_reserve",
                 .effect = "size of the address range of an expandable segment",
                 .since = "2.15",
                 .side_effects = {},
                 .source = {}},
    SettingFacts{.key = "expandable_segments_reserve_by_class",
                 .effect = "the same for classes of streams",
                 .since = "2.15",
                 .side_effects = {},
                 .source = {}},
    SettingFacts{.key = "pinned_max_round_threshold_mb",
                 .effect = "larger requests of pinned host memory are not rounded up to a power of two",
                 .since = "2.13",
                 .side_effects = "blocks of unequal size serve each other less often: more calls of cudaHostAlloc",
                 .source = "c10/core/CachingHostAllocator.h"},
    SettingFacts{.key = "pinned_max_cached_size_mb",
                 .effect = "larger blocks of pinned host memory go back to the system when freed",
                 .since = "2.13",
                 .side_effects = "each such request page-locks its memory anew, which takes milliseconds",
                 .source = "c10/core/CachingHostAllocator.h"},
};

/// Keys that PyTorch also has: they change no placement (torch_conf.h), or set the limit.
constexpr std::array<std::string_view, 10> other_keys{"backend",
                                                      "release_lock_on_cudamalloc",
                                                      "graph_capture_record_stream_reuse",
                                                      "throw_on_cudamalloc_oom",
                                                      "per_process_memory_fraction",
                                                      "pinned_use_cuda_host_register",
                                                      "pinned_num_register_threads",
                                                      "pinned_use_background_threads",
                                                      "pinned_reserve_segment_size_mb",
                                                      "use_async_allocator"};

/// The number of single-character changes between two words.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal =
          std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)}));
  }
  return row.back();
}

/// The keys in a value of the variable; commas in brackets don't separate settings.
std::vector<std::string> keys_in(std::string_view conf) {
  std::vector<std::string> keys{""};
  int depth = 0;
  bool in_key = true;
  for (const char c : conf) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      keys.emplace_back();
      in_key = true;
    } else if (c == ':' && depth == 0) {
      in_key = false;
    } else if (in_key && c != ' ') {
      keys.back() += c;
    }
  }
  std::erase(keys, "");
  return keys;
}

std::string misspelt(const std::string& key) {
  std::string_view nearest;
  std::size_t least = key.size();
  const auto see = [&](std::string_view known) {
    if (const std::size_t apart = distance(key, known); apart < least) least = apart, nearest = known;
  };
  for (const SettingFacts& known : facts) see(known.key);
  for (const std::string_view known : other_keys) see(known);
  if (least == 0) return {};
  return "PyTorch has no setting " + key + (least <= key.size() / 4 ? ": " + std::string(nearest) + " is meant" : "");
}

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
  constexpr const char *old_name = "PYTORCH_CUDA_ALLOC_CONF", *new_name = "PYTORCH_ALLOC_CONF";
  for (const char* variable : {old_name, new_name}) {
    const auto conf = recorded.find(variable);
    if (conf == recorded.end() || conf->second.empty()) continue;
    for (const std::string& key : keys_in(conf->second))
      if (std::string text = misspelt(key); !text.empty()) return variable + std::string(": ") + text;
    const auto given = parse_alloc_conf(conf->second);
    const auto in_force = recorded.find("expandable_segments");
    if (given && in_force != recorded.end() && given->expandable != (in_force->second == "True"))
      return variable + std::string(" says expandable_segments:") + (given->expandable ? "True" : "False") + ", but " +
             in_force->second + " is in force: " +
             (variable == std::string_view(new_name) ? "releases before 2.9 read PYTORCH_CUDA_ALLOC_CONF only"
                                                     : "the program changed it, or set the variable too late");
  }
  return {};
}

}  // namespace memreel
