// SPDX-License-Identifier: Apache-2.0
// The real driver, for the interposer: its functions, behind ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "collector/cuda/calls.h"

namespace memreel::cuda {

inline constexpr Status not_found = 500;  // CUDA_ERROR_NOT_FOUND

class RealDriver {
 public:
  /// The C library's dlsym, bypassing ours.
  static void* dlsym(void* handle, const char* name);

  /// A symbol in libcuda.so.1, which is loaded if necessary. Null if not found.
  static void* find(const char* name);

  static const RealDriver& get();

  Status current_context(Object* context) const;
  Status current_device(Device* device) const;
  /// `own_default`: stream 0 is the per-thread default stream.
  bool is_capturing(Object stream, bool own_default) const;
  /// None if the driver is older than CUDA 12.8.
  std::optional<Device> device_of_stream(Object stream) const;
  /// Null if the driver does not say.
  const void* context_of_stream(Object stream) const;
  /// The size and device of memory that belongs to another process or API. None if the driver does not say.
  struct Extent {
    std::uint64_t size = 0;
    Device device = 0;
  };
  std::optional<Extent> extent_of(DevicePointer address) const;
  /// The device of physical memory.
  std::optional<Device> device_of(AllocationHandle handle) const;
  /// A device's primary context if active, else null. Never creates one.
  const void* active_primary(Device device) const;

 private:
  RealDriver();

  Status (*current_context_)(Object*) = nullptr;
  Status (*current_device_)(Device*) = nullptr;
  Status (*is_capturing_)(Object, int*) = nullptr;
  Status (*device_of_stream_)(Object, Device*) = nullptr;
  Status (*context_of_stream_)(Object, Object*) = nullptr;
  Status (*address_range_)(DevicePointer*, std::size_t*, DevicePointer) = nullptr;
  Status (*pointer_attribute_)(void*, int, DevicePointer) = nullptr;
  Status (*properties_)(AllocationProperties*, AllocationHandle) = nullptr;
  Status (*primary_state_)(Device, unsigned*, int*) = nullptr;
  Status (*retain_primary_)(Object*, Device) = nullptr;
  Status (*release_primary_)(Device) = nullptr;
};

}  // namespace memreel::cuda
