// SPDX-License-Identifier: Apache-2.0
// The settings of PyTorch's allocators (formats/torch) as the parameters of policies.
#pragma once

#include <vector>

#include "analyzer/replay/engine/parameters.h"
#include "formats/model/result.h"
#include "formats/torch/settings.h"

namespace memreel {

/// What torch.native and torch.host take, with these settings as defaults. The values are PyTorch's to judge
/// (TorchSettings::parse).
std::vector<Parameter> parameters_of(const TorchSettings& settings);
std::vector<Parameter> parameters_of(const TorchHostSettings& settings);

/// The spec of torch.native or torch.host, with every parameter given.
PolicySpec spec_of(const TorchSettings& settings);
PolicySpec spec_of(const TorchHostSettings& settings);

/// A spec of one of the torch policies without the keys that change no placement, which are accepted and ignored
/// (pinned_..., release_lock_on_cudamalloc and the like). A policy `torch` takes its values as PyTorch would and
/// becomes torch.native, which also accepts "unlimited" and 0. Errors: what PyTorch refuses, and the backend
/// cudaMallocAsync.
Result<PolicySpec> without_neutral_keys(const PolicySpec& spec);

}  // namespace memreel
