// The size of a CUDA array. The driver does not report it; this is what its elements need, without device padding.
#pragma once

#include <cstdint>

#include "collector/cuda/calls.h"

namespace memreel::cuda {

std::uint64_t array_size(const ArrayDescriptor& descriptor);
/// Of all mipmap levels: each has half the width, height and depth of the previous one.
std::uint64_t array_size(const Array3dDescriptor& descriptor, unsigned levels = 1);

}  // namespace memreel::cuda
