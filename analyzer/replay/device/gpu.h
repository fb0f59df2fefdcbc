// SPDX-License-Identifier: Apache-2.0
// One GPU, opened through the driver, that meters every call with a cost.
#pragma once

#include <array>
#include <memory>

#include "analyzer/replay/replay.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel::gpu {

// The GPU driver, loaded at run time: building needs no CUDA header or library, and a machine without a GPU only gets
// an error.
//
// This declares the part of the driver's binary interface (libcuda.so.1, CUDA 11.3 and newer) that this folder uses,
// under our own names. Names in `EntryPoints` are the driver's without their prefix; gpu.cpp has the symbol for
// each.

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

/// The calls of one kind: number, bytes, time.
struct Tally {
  std::uint64_t calls = 0;
  Bytes bytes;
  double seconds = 0;
};

using Tallies = std::array<Tally, driver_call_kinds>;

/// The GPU with a given number; its primary context is current on the calling thread, the only one that may use it.
///
/// Calls that fail for lack of memory report it in their result. The first other failure is kept in error(); from then
/// on the GPU is only asked to free what it gave.
class Gpu {
 public:
  /// Errors: there is no such GPU, or it can't be used.
  static Result<std::unique_ptr<Gpu>> open(Driver driver, int number);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  const std::string& name() const { return name_; }
  /// "13.0"
  const std::string& cuda_version() const { return cuda_version_; }
  int number() const { return number_; }

  std::optional<DevicePointer> malloc(Bytes size);
  void free(DevicePointer pointer, Bytes size);
  std::optional<DevicePointer> malloc_async(Bytes size, Pool pool, Stream stream);
  void free_async(DevicePointer pointer, Bytes size, Stream stream);
  /// Maps new physical memory at `address`, which is inside reserved addresses. False: out of memory.
  bool map_new(DevicePointer address, Bytes size);
  /// Releases the memory of one map_new() call.
  void unmap(DevicePointer address, Bytes size);
  std::optional<DevicePointer> reserve_addresses(Bytes size);
  void free_addresses(DevicePointer address, Bytes size);
  void synchronize();
  void synchronize_stream(Stream stream);
  void trim(Pool pool);

  /// Unmetered calls: they serve the measurement, or happen once.
  Bytes free_memory();
  Pool create_pool(std::optional<Bytes> most, Bytes release_threshold);
  void destroy_pool(Pool pool);
  Bytes pool_bytes(Pool pool, PoolAttribute attribute);
  void set_pool_flag(Pool pool, PoolAttribute attribute, bool value);
  Stream create_stream();
  void destroy_stream(Stream stream);
  /// Work submitted to `waiting` from now on runs after the work submitted to `awaited` so far.
  void order(Stream awaited, Stream waiting);

  const Tallies& tallies() const { return tallies_; }
  void reset_tallies() { tallies_ = {}; }
  const std::optional<Error>& error() const { return error_; }
  const Driver& driver() const { return driver_; }

 private:
  explicit Gpu(Driver driver) : driver_(std::move(driver)) {}

  /// Makes a call, metered as `kind`. Returns true on success, false if out of memory or on failure.
  template <class Call>
  bool metered(DriverCall kind, Bytes size, std::string_view what, Call&& call);
  bool granted(Status status, std::string_view what);    // lack of memory is no failure
  bool succeeded(Status status, std::string_view what);  // everything else is

  Driver driver_;
  DeviceNumber device_ = 0;
  int number_ = 0;
  bool retained_ = false;
  std::string name_, cuda_version_;
  Tallies tallies_{};
  std::optional<Error> error_;
};

}  // namespace memreel::gpu
