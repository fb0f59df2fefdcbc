// What each setting of PyTorch's allocator does beside saving memory: the one table from which advice speaks.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/policy_spec.h"

namespace memreel {

struct SettingFacts {
  std::string_view key;           // in PYTORCH_CUDA_ALLOC_CONF
  std::string_view effect;        // on placement
  std::string_view side_effects;  // what it breaks or costs; may be empty
  std::string_view source;        // of the side effects: PyTorch's code, or threads that report them
};

/// All settings that memreel advises, in the order of the documents (docs/out-of-memory.md).
std::span<const SettingFacts> setting_facts();

/// Those of them that `to` changes from `from`. `from`, `to`: complete specs of torch.native or torch.host.
std::vector<const SettingFacts*> facts_of_changes(const PolicySpec& from, const PolicySpec& to);

/// "expandable_segments: cudaIpcGetMemHandle refuses its memory..." for each of those; empty if nothing is known.
std::string side_effects_of(const PolicySpec& from, const PolicySpec& to);

/// What is wrong with the recorded texts of PYTORCH_CUDA_ALLOC_CONF and its other names, given what the allocator said
/// was in force (a snapshot's allocator_settings): what PyTorch refuses, such as a key that it does not have, with the
/// likeliest one; a variable that the release does not read; a value that is not in force. Empty if nothing is.
std::string misread_settings(const std::map<std::string, std::string>& recorded);

}  // namespace memreel
