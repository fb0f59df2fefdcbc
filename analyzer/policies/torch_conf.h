// PYTORCH_CUDA_ALLOC_CONF: the settings of PyTorch's allocator in PyTorch's own syntax.
//
// "expandable_segments:True,roundup_power2_divisions:[256:1,>:8]". What PyTorch 2.11 accepts and refuses was tested on
// a GPU, key by key; torch_settings.h explains the keys.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/policies/torch_settings.h"
#include "formats/model/result.h"

namespace memreel {

/// Parses a value of the variable as a release would. Errors: what PyTorch would refuse, and the backend
/// cudaMallocAsync.
Result<TorchSettings> parse_alloc_conf(std::string_view conf, TorchRelease release = {});

/// The value of the variable that gives these settings, naming only those that differ from the defaults; empty for the
/// defaults. Excludes the release.
std::string alloc_conf(const TorchSettings& settings);

/// A spec of one of the torch policies without the keys that change no placement, which are accepted and ignored
/// (pinned_..., release_lock_on_cudamalloc and the like). A policy `torch` takes its values as PyTorch would and
/// becomes torch.native, which also accepts "unlimited" and 0. Errors: the backend cudaMallocAsync, or one that PyTorch
/// does not have.
Result<PolicySpec> without_neutral_keys(const PolicySpec& spec);

}  // namespace memreel
