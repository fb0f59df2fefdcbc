// SPDX-License-Identifier: Apache-2.0
// PyTorch reports every tensor allocation and free to its profiler, whether or not it is being profiled, by calling a
// libc10 function through the dynamic linker. A preloaded library precedes libc10 in the search for that function:
// reporters.cpp defines it, records, and calls libc10's.
//
// A report carries the block's actual size (requested size plus rounding and unsplit remainder) and the allocator's own
// total of allocated bytes. It comes while the allocator holds its lock for that device, so reports are in the order of
// its decisions. It does not carry the requested size, the stream, or when the device was done with freed memory: where
// the allocator's own trace can be followed, that does (allocator_trace.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memreel::torch {

// A thread's position in PyTorch's autograd. A graph node has the sequence number of the operator that made it in the
// forward pass, so allocations in the backward pass can be attributed to the operator.

/// Finds PyTorch's functions, if loaded. Takes the dynamic loader's lock: for the writing thread.
void look_for_autograd();

struct AutogradPosition {
  /// Of the node whose backward the thread runs; else of the last node that the thread made, whose operator may be the
  /// one running now. Counted from 1, modulo 2^32; 0: none. None in a backward pass if a node can't be read without
  /// changing its reference count (PyTorch 2.14 and newer).
  std::uint32_t sequence = 0;
  bool backward = false;
};

/// For the calling thread. Reads two of PyTorch's variables; in a backward pass, four more.
AutogradPosition autograd_position() noexcept;

// PyTorch's current CUDA stream on the calling thread.

/// Finds PyTorch's functions, if loaded. Takes the dynamic loader's lock: for the writing thread.
void look_for_streams();

/// The calling thread's current stream on a device, as a cudaStream_t; 0, the default stream, until PyTorch's functions
/// are found. Reads two of PyTorch's variables.
std::uint64_t current_stream(std::int8_t device) noexcept;

// PyTorch without its caching allocator: tensors are not reported, and each is a driver call.

/// What replaces PyTorch's caching allocator, in words; empty if nothing does, or PyTorch is not loaded. For the
/// writing thread, after look().
std::string other_allocator();

/// The two functions: their mangled names, and ours.
inline constexpr std::string_view report_symbol = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
inline constexpr std::string_view out_of_memory_symbol = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE";
void* report_function();
void* out_of_memory_function();

/// Finds PyTorch's functions once it is loaded. Called periodically by the writing thread, so that the first report,
/// which comes with a lock held, need not query the dynamic loader.
void look();

/// Called for each request that fails for good, by its thread, which may hold the GIL or not. Null: nothing.
void on_failure(void (*call)());

/// Whether to record reports; they are passed on in any case. Initially yes.
void set_recorded(bool recorded);

}  // namespace memreel::torch
