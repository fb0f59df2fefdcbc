// PyTorch without its caching allocator: tensors are not reported, and each is a driver call.
#pragma once

#include <string>

namespace memreel::torch {

/// What replaces PyTorch's caching allocator, in words; empty if nothing does, or PyTorch is not loaded. For the
/// writing thread, after look().
std::string other_allocator();

}  // namespace memreel::torch
