// PyTorch without its caching allocator: nobody reports tensors then, and each is a call to the driver.
#pragma once

#include <string>

namespace memreel::torch {

/// What serves PyTorch's tensors in place of its caching allocator, in words; empty when that does, or PyTorch is not
/// loaded. For the writing thread, after look().
std::string other_allocator();

}  // namespace memreel::torch
