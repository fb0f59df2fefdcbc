// Parses policies as typed or pasted by the user.
#pragma once

#include <string>
#include <string_view>

namespace memreel::viewer {

/// A list of policies in the syntax of `memreel replay --policy`. Settings of PYTORCH_CUDA_ALLOC_CONF, alone or with
/// the variable and `export` in front, become parameters of torch.native; everything else is unchanged.
std::string as_policies(std::string_view typed);

}  // namespace memreel::viewer
