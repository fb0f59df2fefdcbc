// The driver itself, for the interposer: its functions as they are behind ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "collector/cuda/calls.h"

namespace memreel::cuda {

inline constexpr Status not_found = 500;  // CUDA_ERROR_NOT_FOUND

class RealDriver {
 public:
  /// The C library's dlsym, past ours.
  static void* dlsym(void* handle, const char* name);

  /// A symbol of the libcuda.so.1 that is loaded, or is loaded now. Null when there is none.
  static void* find(const char* name);

  static const RealDriver& get();

  Status current_context(Object* context) const;
  Status current_device(Device* device) const;
  /// `own_default`: stream 0 is the thread's own.
  bool is_capturing(Object stream, bool own_default) const;
  /// Null where the driver is older than CUDA 12.8.
  std::optional<Device> device_of_stream(Object stream) const;
  /// Null where the driver does not say.
  const void* context_of_stream(Object stream) const;
  /// Of memory that another process has, or another API: how much it is, and on which device. Null where the driver
  /// does not say.
  struct Extent {
    std::uint64_t size = 0;
    Device device = 0;
  };
  std::optional<Extent> extent_of(DevicePointer address) const;
  /// The device of physical memory.
  std::optional<Device> device_of(AllocationHandle handle) const;
  /// The primary context of a device while it is alive; else null. Makes none.
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
