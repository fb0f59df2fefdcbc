// The GPU driver, loaded at run time: building needs no CUDA header or library, and a machine without a GPU only gets
// an error.
//
// This declares the part of the driver's binary interface (libcuda.so.1, CUDA 11.3 and newer) that this folder uses,
// under our own names. Names in `EntryPoints` are the driver's without their prefix; driver.cpp has the symbol for
// each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/model/result.h"

namespace memreel::gpu {

using Status = int;  // CUresult
inline constexpr Status success = 0;
inline constexpr Status out_of_memory = 2;

using DeviceNumber = int;                // CUdevice
using DevicePointer = std::uint64_t;     // CUdeviceptr
using AllocationHandle = std::uint64_t;  // CUmemGenericAllocationHandle
struct ContextObject;
struct StreamObject;
struct EventObject;
struct PoolObject;
using Context = ContextObject*;
using Stream = StreamObject*;  // null: the legacy default stream
using Event = EventObject*;
using Pool = PoolObject*;

struct Location {
  int type = 1;  // a device
  int id = 0;
};

struct PoolProperties {
  int allocation_type = 1;  // pinned
  int handle_types = 0;
  Location location;
  void* security_attributes = nullptr;
  std::size_t max_size = 0;  // 0: as large as the device allows
  unsigned short usage = 0;
  std::array<unsigned char, 54> reserved{};
};
static_assert(sizeof(PoolProperties) == 88);

struct AllocationProperties {
  int type = 1;  // pinned
  int handle_types = 0;
  Location location;
  void* win32 = nullptr;
  unsigned char compression = 0;
  unsigned char gpu_direct_rdma = 0;
  unsigned short usage = 0;
  std::array<unsigned char, 4> reserved{};
};
static_assert(sizeof(AllocationProperties) == 32);

struct Access {
  Location location;
  int flags = 3;  // read and write
};
static_assert(sizeof(Access) == 12);

enum class PoolAttribute : int {
  follow_event_dependencies = 1,  // int
  allow_opportunistic = 2,        // int
  allow_internal_dependencies = 3,
  release_threshold = 4,  // this and the following: 64-bit bytes
  reserved_current = 5,
  reserved_high = 6,
  used_current = 7,
  used_high = 8,
};

inline constexpr unsigned non_blocking_stream = 1;
inline constexpr unsigned event_without_timing = 2;

struct EntryPoints {
  Status (*init)(unsigned);
  Status (*driver_version)(int*);
  Status (*error_name)(Status, const char**);
  Status (*device_count)(int*);
  Status (*device)(DeviceNumber*, int);
  Status (*device_name)(char*, int, DeviceNumber);
  Status (*retain_context)(Context*, DeviceNumber);
  Status (*release_context)(DeviceNumber);
  Status (*set_context)(Context);
  Status (*synchronize)();
  Status (*memory_info)(std::size_t* free, std::size_t* total);
  Status (*malloc)(DevicePointer*, std::size_t);
  Status (*free)(DevicePointer);
  Status (*create_stream)(Stream*, unsigned);
  Status (*destroy_stream)(Stream);
  Status (*synchronize_stream)(Stream);
  Status (*stream_waits)(Stream, Event, unsigned);
  Status (*launch_host_function)(Stream, void (*)(void*), void*);
  Status (*create_event)(Event*, unsigned);
  Status (*record_event)(Event, Stream);
  Status (*destroy_event)(Event);
  Status (*create_pool)(Pool*, const PoolProperties*);
  Status (*destroy_pool)(Pool);
  Status (*set_pool_attribute)(Pool, PoolAttribute, void*);
  Status (*get_pool_attribute)(Pool, PoolAttribute, void*);
  Status (*trim_pool)(Pool, std::size_t);
  Status (*malloc_async)(DevicePointer*, std::size_t, Pool, Stream);
  Status (*free_async)(DevicePointer, Stream);
  Status (*reserve_addresses)(DevicePointer*, std::size_t, std::size_t, DevicePointer, unsigned long long);
  Status (*free_addresses)(DevicePointer, std::size_t);
  Status (*create)(AllocationHandle*, std::size_t, const AllocationProperties*, unsigned long long);
  Status (*release)(AllocationHandle);
  Status (*map)(DevicePointer, std::size_t, std::size_t, AllocationHandle, unsigned long long);
  Status (*unmap)(DevicePointer, std::size_t);
  Status (*set_access)(DevicePointer, std::size_t, const Access*, std::size_t);
};

/// A loaded driver. Never unloaded: it may have started threads.
class Driver {
 public:
  /// Loads a file; if `library` is empty, the one named by the environment variable MEMREEL_LIBCUDA, else libcuda.so.1.
  /// Errors: there is none, or it lacks a function.
  static Result<Driver> load(std::string library = {});

  const EntryPoints* operator->() const { return &entry_; }

  /// "CUDA_ERROR_OUT_OF_MEMORY (2)"
  std::string text_of(Status status) const;
  const std::string& library() const { return library_; }

 private:
  Driver() = default;

  std::string library_;
  EntryPoints entry_{};
};

}  // namespace memreel::gpu
