// SPDX-License-Identifier: Apache-2.0
// The driver calls that affect memory: their numbers and parameters.
//
// The numbers are CUPTI's callback IDs in the driver domain; the structures have the layout in which CUPTI passes a
// call's parameters: its arguments in order. Both are part of CUDA's binary interface and have not changed from CUDA 11
// to 13, so one table serves all versions and no toolkit is needed to build. Where a toolkit is present,
// layout_check.cpp compares them. Names are the driver's without "cu"; "ptsz" marks the variants in which stream 0 is
// the per-thread default stream.
//
// Not included: the 32-bit calls of CUDA 3 and older, which no 64-bit program can use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace memreel::cuda {

using Status = int;  // CUresult
inline constexpr Status success = 0;
inline constexpr Status out_of_memory = 2;

using DevicePointer = std::uint64_t;     // CUdeviceptr
using AllocationHandle = std::uint64_t;  // CUmemGenericAllocationHandle
using Object = void*;                    // a stream, pool, array, context, graph: opaque to us
using Device = int;                      // CUdevice, which is the ordinal

enum class Call : std::uint32_t {
  ctx_destroy = 11,
  ctx_detach = 13,
  mem_free_host = 38,
  mem_host_alloc = 39,
  array_destroy = 89,
  ctx_create_v2 = 235,
  mem_alloc = 243,
  mem_alloc_pitch = 244,
  mem_free = 245,
  mem_host_alloc_v2 = 271,
  array_create = 272,
  array_3d_create = 274,
  mem_alloc_host = 294,
  mem_host_register_v1 = 301,
  mem_host_unregister = 302,
  ctx_destroy_v2 = 322,
  ipc_open_mem_handle = 329,
  ipc_close_mem_handle = 330,
  mipmapped_array_create = 347,
  mipmapped_array_destroy = 349,
  mem_alloc_managed = 371,
  mem_host_register = 379,
  primary_ctx_retain = 386,
  primary_ctx_release_v1 = 387,
  primary_ctx_reset_v1 = 389,
  external_memory_get_mapped_buffer = 486,
  primary_ctx_release = 544,
  primary_ctx_reset = 545,
  mem_address_reserve = 547,
  mem_address_free = 548,
  mem_create = 549,
  mem_release = 550,
  mem_map = 551,
  mem_unmap = 552,
  mem_import_from_shareable_handle = 555,
  mem_retain_allocation_handle = 565,
  ipc_open_mem_handle_v2 = 567,
  mem_alloc_async = 598,
  mem_alloc_async_ptsz = 599,
  mem_free_async = 600,
  mem_free_async_ptsz = 601,
  device_get_default_mem_pool = 606,
  mem_pool_create = 607,
  mem_pool_destroy = 608,
  device_set_mem_pool = 609,
  device_get_mem_pool = 610,
  mem_alloc_from_pool_async = 611,
  mem_alloc_from_pool_async_ptsz = 612,
  mem_pool_import_from_shareable_handle = 614,
  mem_pool_import_pointer = 616,
  graph_add_mem_alloc_node = 638,
  graph_add_mem_free_node = 639,
  ctx_create_v3 = 645,
  graph_add_node = 712,
  graph_add_node_v2 = 723,
  green_ctx_create = 743,
  ctx_from_green_ctx = 753,
  ctx_create_v4 = 757,
  mem_get_default_mem_pool = 801,
  mem_get_mem_pool = 802,
  mem_set_mem_pool = 803,
  graph_add_node_v3 = 863,
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

}  // namespace memreel::cuda
