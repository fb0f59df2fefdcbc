// Policies as a person types or pastes them.
#pragma once

#include <string>
#include <string_view>

namespace memreel::viewer {

/// A list of policies as `memreel replay --policy` takes it. Settings of PYTORCH_CUDA_ALLOC_CONF, alone or with the
/// variable and `export` in front, are those of torch.native; everything else is as it was.
std::string as_policies(std::string_view typed);

}  // namespace memreel::viewer
