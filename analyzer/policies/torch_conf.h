// PYTORCH_CUDA_ALLOC_CONF: the settings of PyTorch's allocator as PyTorch itself writes them.
//
// "expandable_segments:True,roundup_power2_divisions:[256:1,>:8]". What PyTorch 2.11 takes and refuses was tried out on
// a GPU, key by key; what the keys mean is in torch_settings.h.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/policies/torch_settings.h"
#include "formats/model/result.h"

namespace memreel {

/// The settings of a value of the variable, as a release reads it. Errors: what PyTorch would refuse, and the backend
/// cudaMallocAsync.
Result<TorchSettings> parse_alloc_conf(std::string_view conf, TorchRelease release = {});

/// The value of the variable that gives these settings, naming only those that differ from the defaults; empty for the
/// defaults. Not in it: the release.
std::string alloc_conf(const TorchSettings& settings);

/// A spec of one of the torch policies without the keys that change no placement, which are accepted and ignored
/// (pinned_..., release_lock_on_cudamalloc and the like). A policy `torch` takes its values as PyTorch would and
/// becomes torch.native, where "unlimited" and 0 are known as well. Errors: the backend cudaMallocAsync, or none of
/// PyTorch's.
Result<PolicySpec> without_neutral_keys(const PolicySpec& spec);

}  // namespace memreel
