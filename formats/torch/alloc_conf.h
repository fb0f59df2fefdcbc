// SPDX-License-Identifier: Apache-2.0
// The text in which users write the settings of PyTorch's allocators: PYTORCH_CUDA_ALLOC_CONF and its other names.
//
// "expandable_segments:True,roundup_power2_divisions:[256:1,>:8]". Source: lexArgs() and parseArgs() in
// c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.1 to 2.9; ConfigTokenizer in c10/core/AllocatorConfig.h and parseArgs()
// there and in c10/cuda/CUDAAllocatorConfig.cpp of 2.10 to 2.15. What the wheel of each release makes of many texts is
// in tests/data/torch/alloc_conf.txt.
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "formats/model/result.h"
#include "formats/torch/release.h"
#include "formats/torch/settings.h"

namespace memreel {

/// A key of the text.
struct ConfKey {
  enum class Value : std::uint8_t { boolean, mib, threads, share, divisions, backend, reserve, reserves };

  std::string_view name;
  Value value = Value::boolean;
  TorchReleases releases;  // that have it
};

/// Every key of every release.
std::span<const ConfKey> conf_keys();
/// Null if no release has it.
const ConfKey* conf_key(std::string_view name);

/// The variables that hold the text. The first one that is set counts; a release may not read the last
/// (torch_rule::reads_other_variables).
inline constexpr std::array<const char*, 3> conf_variables{"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                                                           "PYTORCH_ALLOC_CONF"};

/// What a text sets.
struct AllocConf {
  TorchSettings device;
  TorchHostSettings host;
};

/// Reads a text as a release would. Errors: what PyTorch refuses, with its reason, and the backend cudaMallocAsync,
/// which is another allocator. Keys that only other releases have are read
/// all the same.
Result<AllocConf> read_alloc_conf(std::string_view text, TorchRelease release = {});

/// The text that counts among recorded settings, by variable; empty if there is none.
std::string_view recorded_conf(const std::map<std::string, std::string>& settings, TorchRelease release);

/// The text that gives these settings, naming only those that differ from the defaults; empty for the defaults.
/// Excludes the release.
std::string alloc_conf(const TorchSettings& settings);
std::string alloc_conf(const TorchHostSettings& settings);

/// The settings in a text, each "key:value" without blanks, as PyTorch would split it: "[256:1,>:8]" is one value. What
/// has no value has none here. Doesn't judge them.
std::vector<std::pair<std::string, std::string>> settings_in(std::string_view text);

/// The value of a key in a text, the last one if it is given twice; empty if it has none.
std::string value_in(std::string_view text, std::string_view key);

}  // namespace memreel
