// PyTorch tells its profiler of every tensor allocation and free, and calls for that a function of libc10 through the
// dynamic linker, always, whether it is being profiled or not. A library that was preloaded comes before libc10 in the
// search for that function: reporters.cpp defines it, records, and calls libc10's.
//
// A report carries the block's true size (requested size, rounded, and what was not worth splitting off) and the
// allocator's own total of allocated bytes. It comes while the allocator holds its lock for that device, so the order
// of reports is the order of decisions. It does not carry the requested size, the stream, or when the device was done
// with memory that was let go of: where the allocator's own trace can be followed (allocator_trace.h), it does.
#pragma once

#include <string_view>

namespace memreel::torch {

/// The two functions: their names for the dynamic linker, and ours.
inline constexpr std::string_view report_symbol = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
inline constexpr std::string_view out_of_memory_symbol = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE";
void* report_function();
void* out_of_memory_function();

/// Finds PyTorch's functions once it is loaded. Called by the writing thread now and then, so that the first report,
/// which comes with a lock held, need not ask the dynamic loader.
void look();

/// Whether reports are recorded; they are passed on in any case. From the beginning they are.
void set_recorded(bool recorded);

}  // namespace memreel::torch
