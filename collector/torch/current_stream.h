// PyTorch's current CUDA stream on the calling thread.
#pragma once

#include <cstdint>

namespace memreel::torch {

/// Finds PyTorch's functions, if loaded. Takes the dynamic loader's lock: for the writing thread.
void look_for_streams();

/// The calling thread's current stream on a device, as a cudaStream_t; 0, the default stream, until PyTorch's functions
/// are found. Reads two of PyTorch's variables.
std::uint64_t current_stream(std::int8_t device) noexcept;

}  // namespace memreel::torch
