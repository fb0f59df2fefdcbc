// How large a CUDA array is. The driver does not say; this is what its elements need, without the device's padding.
#pragma once

#include <cstdint>

#include "collector/cuda/calls.h"

namespace memreel::cuda {

std::uint64_t array_size(const ArrayDescriptor& descriptor);
/// Of all its levels: each has half the width, height and depth of the one before.
std::uint64_t array_size(const Array3dDescriptor& descriptor, unsigned levels = 1);

}  // namespace memreel::cuda
