// The CUDA stream that PyTorch's calling thread has made current.
#pragma once

#include <cstdint>

namespace memreel::torch {

/// Finds PyTorch's functions, if it is loaded. It takes the dynamic loader's lock: the writing thread calls it.
void look_for_streams();

/// The current stream of the calling thread on a device, as a cudaStream_t; 0, the default stream, while PyTorch's
/// functions were not found. Reads two variables of PyTorch's.
std::uint64_t current_stream(std::int8_t device) noexcept;

}  // namespace memreel::torch
