// SPDX-License-Identifier: Apache-2.0
// The parameters of the driver calls that affect memory, in the layout in which CUPTI passes them: a call's arguments
// in order. calls.inc has a row for each call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace memreel::cuda {

using Status = int;  // CUresult
inline constexpr Status success = 0;
inline constexpr Status out_of_memory = 2;

using DevicePointer = std::uint64_t;     // CUdeviceptr
using AllocationHandle = std::uint64_t;  // CUmemGenericAllocationHandle
using Object = void*;                    // a stream, pool, array, context, graph: opaque to us
using Device = int;                      // CUdevice, which is the ordinal

/// Named for the driver's symbols, numbered as CUPTI numbers them.
enum class Call : std::uint32_t {  // NOLINTBEGIN(readability-identifier-naming)
#define CALL(symbol, number, since, parameters, count) symbol = number,
#include "collector/cuda/calls.inc"
  cuMemHostAlloc_v2 = 271,  // a number of cuMemHostAlloc's in CUDA before 13.5
  cuCtxDetach = 13,         // deprecated since CUDA 4: not interposed
};                          // NOLINTEND(readability-identifier-naming)

/// Every call that CUPTI is asked to report.
inline constexpr std::array watched_calls{
#define CALL(symbol, number, since, parameters, count) Call::symbol,
#include "collector/cuda/calls.inc"
    Call::cuMemHostAlloc_v2,
    Call::cuCtxDetach,
};

inline constexpr std::int16_t host_device = -1;  // the host, in records

/// CUmemLocation. Its types in CUDA 13.5: 0 none, 1 device, 2 host, 3 and 4 a NUMA node of the host, 5 a device
/// invisible to this process, 6 a locality domain of a device.
struct Location {
  int type;
  int id;  // of a device or NUMA node; in a locality domain the first byte is the device, the second the domain

  static constexpr int none = 0, device = 1, invisible = 5, locality_domain = 6;

  /// The ordinal of the device that has this memory, or host_device; `otherwise` if the location does not say.
  constexpr std::int16_t device_or(std::int16_t otherwise) const {
    constexpr int first_byte = 0xFF;
    switch (type) {
      case device:
        return static_cast<std::int16_t>(id);
      case locality_domain:
        return static_cast<std::int16_t>(id & first_byte);
      case none:
      case invisible:
        return otherwise;
      default:
        return host_device;
    }
  }
};
static_assert(sizeof(Location) == 8);
inline constexpr int pinned_memory = 1, managed_memory = 2;  // CUmemAllocationType

struct PoolProperties {
  int allocation_type;
  int handle_types;
  Location location;
  void* security_attributes;
  std::size_t max_size;
  unsigned short usage;
  std::array<unsigned char, 54> reserved;
};
static_assert(sizeof(PoolProperties) == 88);

struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* security_attributes;
  std::array<unsigned char, 8> flags;
};
static_assert(sizeof(AllocationProperties) == 32);

struct ArrayDescriptor {
  std::size_t width, height;
  int format;
  unsigned channels;
};
static_assert(sizeof(ArrayDescriptor) == 24);

struct Array3dDescriptor {
  std::size_t width, height, depth;
  int format;
  unsigned channels, flags;
};
static_assert(sizeof(Array3dDescriptor) == 40);

struct MemAllocNode {
  PoolProperties pool;
  const void* access;
  std::size_t access_count;
  std::size_t size;
  DevicePointer address;
};
static_assert(sizeof(MemAllocNode) == 120);

/// The start of CUgraphNodeParams, up to the last field used here.
struct GraphNode {
  int type;
  std::array<int, 3> reserved;
  union {
    MemAllocNode alloc;
    DevicePointer freed;
  };
};
inline constexpr int mem_alloc_node = 10;
inline constexpr int mem_free_node = 11;

struct ExternalBuffer {
  unsigned long long offset, size;
  unsigned flags;
};

/// The types of the `count` members of a structure, in order; compilation fails if it has another number. Only for
/// decltype.
template <int count, class Structure>
constexpr auto member_types(Structure& structure) {
  if constexpr (count == 1) {
    auto& [a] = structure;
    return std::tuple<decltype(a)>{};
  } else if constexpr (count == 2) {
    auto& [a, b] = structure;
    return std::tuple<decltype(a), decltype(b)>{};
  } else if constexpr (count == 3) {
    auto& [a, b, c] = structure;
    return std::tuple<decltype(a), decltype(b), decltype(c)>{};
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = structure;
    return std::tuple<decltype(a), decltype(b), decltype(c), decltype(d)>{};
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = structure;
    return std::tuple<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e)>{};
  } else {
    static_assert(count == 6);
    auto& [a, b, c, d, e, f] = structure;
    return std::tuple<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f)>{};
  }
}

/// The arguments of each call. Unused ones are kept for the layout.
namespace params {

struct MemAlloc {
  DevicePointer* address;
  std::size_t size;
};
struct MemAllocPitch {
  DevicePointer* address;
  std::size_t* pitch;
  std::size_t width, height;
  unsigned element_size;
};
struct MemAllocManaged {
  DevicePointer* address;
  std::size_t size;
  unsigned flags;
};
struct MemFree {
  DevicePointer address;
};
struct MemAllocHost {
  void** address;
  std::size_t size;
};
struct MemHostAlloc {
  void** address;
  std::size_t size;
  unsigned flags;
};
struct MemFreeHost {
  void* address;
};
struct MemHostRegister {
  void* address;
  std::size_t size;
  unsigned flags;
};
struct MemHostUnregister {
  void* address;
};
struct MemAllocAsync {
  DevicePointer* address;
  std::size_t size;
  Object stream;
};
struct MemAllocFromPoolAsync {
  DevicePointer* address;
  std::size_t size;
  Object pool;
  Object stream;
};
struct MemFreeAsync {
  DevicePointer address;
  Object stream;
};
struct MemPoolCreate {
  Object* pool;
  const PoolProperties* properties;
};
struct MemPoolDestroy {
  Object pool;
};
struct DeviceSetMemPool {
  Device device;
  Object pool;
};
struct DeviceGetMemPool {
  Object* pool;
  Device device;
};
struct MemGetMemPool {
  Object* pool;
  const Location* location;
  int allocation_type;
};
struct MemSetMemPool {
  const Location* location;
  int allocation_type;
  Object pool;
};
struct MemPoolImportFromShareableHandle {
  Object* pool;
  void* handle;
  int handle_type;
  unsigned long long flags;
};
struct MemPoolImportPointer {
  DevicePointer* address;
  Object pool;
  void* data;
};
struct MemAddressReserve {
  DevicePointer* address;
  std::size_t size, alignment;
  DevicePointer wished;
  unsigned long long flags;
};
struct MemAddressFree {
  DevicePointer address;
  std::size_t size;
};
struct MemCreate {
  AllocationHandle* handle;
  std::size_t size;
  const AllocationProperties* properties;
  unsigned long long flags;
};
struct MemRelease {
  AllocationHandle handle;
};
struct MemMap {
  DevicePointer address;
  std::size_t size, offset;
  AllocationHandle handle;
  unsigned long long flags;
};
struct MemUnmap {
  DevicePointer address;
  std::size_t size;
};
struct MemImportFromShareableHandle {
  AllocationHandle* handle;
  void* os_handle;
  int type;
};
struct MemRetainAllocationHandle {
  AllocationHandle* handle;
  void* address;
};
struct ArrayCreate {
  Object* array;
  const ArrayDescriptor* descriptor;
};
struct Array3dCreate {
  Object* array;
  const Array3dDescriptor* descriptor;
};
struct ArrayDestroy {
  Object array;
};
struct MipmappedArrayCreate {
  Object* array;
  const Array3dDescriptor* descriptor;
  unsigned levels;
};
struct ExternalMemoryGetMappedBuffer {
  DevicePointer* address;
  Object memory;
  const ExternalBuffer* buffer;
};
struct IpcHandle {
  std::array<unsigned char, 64> bytes;
};
struct IpcOpenMemHandle {
  DevicePointer* address;
  IpcHandle handle;
  unsigned flags;
};
struct IpcCloseMemHandle {
  DevicePointer address;
};
struct GraphAddMemAllocNode {
  Object* node;
  Object graph;
  const Object* dependencies;
  std::size_t dependency_count;
  MemAllocNode* parameters;
};
struct GraphAddMemFreeNode {
  Object* node;
  Object graph;
  const Object* dependencies;
  std::size_t dependency_count;
  DevicePointer address;
};
struct GraphAddNode {
  Object* node;
  Object graph;
  const Object* dependencies;
  std::size_t dependency_count;
  GraphNode* parameters;
};
struct GraphAddNodeV2 {
  Object* node;
  Object graph;
  const Object* dependencies;
  const void* edges;
  std::size_t dependency_count;
  GraphNode* parameters;
};
struct CtxCreateV2 {
  Object* context;
  unsigned flags;
  Device device;
};
struct CtxCreateV3 {
  Object* context;
  const void* affinities;
  int affinity_count;
  unsigned flags;
  Device device;
};
struct CtxCreateV4 {
  Object* context;
  const void* parameters;
  unsigned flags;
  Device device;
};
struct GreenCtxCreate {
  Object* context;
  Object resources;
  Device device;
  unsigned flags;
};
struct CtxFromGreenCtx {
  Object* context;
  Object green;
};
struct CtxDestroy {
  Object context;
};
struct PrimaryCtxRetain {
  Object* context;
  Device device;
};
struct PrimaryCtxRelease {
  Device device;
};

}  // namespace params

/// What a call's row says of its arguments: their structure, and the types of its members.
template <Call call>
struct ArgumentsOf;
#define CALL(symbol, number, since, parameters, count)                                \
  template <>                                                                         \
  struct ArgumentsOf<Call::symbol> {                                                  \
    using Structure = params::parameters;                                             \
    using Types = decltype(member_types<count>(std::declval<params::parameters&>())); \
  };
#include "collector/cuda/calls.inc"

template <Call call>
using Parameters = typename ArgumentsOf<call>::Structure;
/// A std::tuple of them, in order.
template <Call call>
using Arguments = typename ArgumentsOf<call>::Types;

}  // namespace memreel::cuda
