// SPDX-License-Identifier: Apache-2.0
// The parts of the libcuda.so.1 and libcupti.so.* ABIs that the fake libraries implement, declared independently.
// Numbers and layouts are those of CUDA 11.3 to 13.x; abi_check.cpp compares them with the toolkit's headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fake {

using Status = int;  // CUresult
inline constexpr Status success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, invalid_device = 101,
                        invalid_context = 201, illegal_state = 401, not_found = 500, not_permitted = 800,
                        capture_unsupported = 900, not_supported = 801, not_ready = 600;

using DeviceNumber = int;
using DevicePointer = std::uint64_t;
using AllocationHandle = std::uint64_t;
struct Context;
struct Stream;
struct Event;
struct Pool;
struct Graph;
struct GraphExec;
struct GraphNode;
struct Array;
struct MipmappedArray;
struct ExternalMemory;
struct GreenContext;
struct ResourceDescriptor;

struct Location {
  int type = 1;  // a device
  int id = 0;    // of a locality domain: the device in the first byte, the domain in the second

  static constexpr int none = 0, device = 1, host = 2, host_numa = 3, locality_domain = 6;
};
inline constexpr int pinned_memory = 1, managed_memory = 2;  // CUmemAllocationType

struct PoolProperties {
  int allocation_type = 1;  // pinned
  int handle_types = 0;
  Location location;
  void* security_attributes = nullptr;
  std::size_t max_size = 0;
  unsigned short usage = 0;
  std::array<unsigned char, 54> reserved{};
};

struct AllocationProperties {
  int type = 1;
  int handle_types = 0;
  Location location;
  void* win32 = nullptr;
  std::array<unsigned char, 8> flags{};
};

struct Access {
  Location location;
  int flags = 3;  // read and write
};

struct ArrayDescriptor {
  std::size_t width = 0, height = 0;
  int format = 1;
  unsigned channels = 1;
};

struct Array3DDescriptor {
  std::size_t width = 0, height = 0, depth = 0;
  int format = 1;
  unsigned channels = 1;
  unsigned flags = 0;
};

struct AllocNodeParameters {
  PoolProperties properties;
  const Access* access = nullptr;
  std::size_t access_count = 0;
  std::size_t size = 0;
  DevicePointer pointer = 0;  // output
};

/// CUgraphNodeParams, only the parts that memory nodes need.
struct NodeParameters {
  static constexpr int alloc_type = 10, free_type = 11;

  int type = 0;
  std::array<int, 3> reserved0{};
  union {
    AllocNodeParameters alloc{};
    DevicePointer freed;
  };
  std::array<long long, 15> reserved1{};
};

struct IpcHandle {
  std::array<char, 64> bytes{};
};

struct ExternalMemoryHandle {
  int type = 1;  // a file descriptor
  std::array<void*, 2> handle{};
  unsigned long long size = 0;
  unsigned flags = 0;
  std::array<unsigned, 16> reserved{};
};

struct ExternalMemoryBuffer {
  unsigned long long offset = 0, size = 0;
  unsigned flags = 0;
  std::array<unsigned, 16> reserved{};
};

enum class PoolAttribute : int {
  release_threshold = 4,
  reserved_current = 5,
  reserved_high = 6,
  used_current = 7,
  used_high = 8,
};

// What CUPTI reports for a call: its arguments, in declaration order.
namespace arguments {

struct MemAlloc {
  DevicePointer* pointer;
  std::size_t size;
};
struct MemAllocPitch {
  DevicePointer* pointer;
  std::size_t* pitch;
  std::size_t width, height;
  unsigned element_size;
};
struct MemAllocManaged {
  DevicePointer* pointer;
  std::size_t size;
  unsigned flags;
};
struct MemFree {
  DevicePointer pointer;
};
struct MemAllocHost {
  void** pointer;
  std::size_t size;
};
struct MemHostAlloc {
  void** pointer;
  std::size_t size;
  unsigned flags;
};
struct MemFreeHost {
  void* pointer;
};
struct MemHostRegister {
  void* pointer;
  std::size_t size;
  unsigned flags;
};
struct MemAllocAsync {
  DevicePointer* pointer;
  std::size_t size;
  Stream* stream;
};
struct MemAllocFromPoolAsync {
  DevicePointer* pointer;
  std::size_t size;
  Pool* pool;
  Stream* stream;
};
struct MemFreeAsync {
  DevicePointer pointer;
  Stream* stream;
};
struct MemPoolCreate {
  Pool** pool;
  const PoolProperties* properties;
};
struct MemPoolDestroy {
  Pool* pool;
};
struct MemPoolTrimTo {
  Pool* pool;
  std::size_t keep;
};
struct MemPoolSetAttribute {
  Pool* pool;
  PoolAttribute attribute;
  void* value;
};
struct DeviceSetMemPool {
  DeviceNumber device;
  Pool* pool;
};
struct DeviceGetMemPool {
  Pool** pool;
  DeviceNumber device;
};
struct MemGetMemPool {
  Pool** pool;
  Location* location;
  int type;
};
struct MemSetMemPool {
  Location* location;
  int type;
  Pool* pool;
};
struct MemAddressReserve {
  DevicePointer* pointer;
  std::size_t size, alignment;
  DevicePointer wanted;
  unsigned long long flags;
};
struct MemAddressFree {
  DevicePointer pointer;
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
  DevicePointer pointer;
  std::size_t size, offset;
  AllocationHandle handle;
  unsigned long long flags;
};
struct MemUnmap {
  DevicePointer pointer;
  std::size_t size;
};
struct MemSetAccess {
  DevicePointer pointer;
  std::size_t size;
  const Access* access;
  std::size_t count;
};
struct MemRetainAllocationHandle {
  AllocationHandle* handle;
  void* address;
};
struct ArrayCreate {
  Array** array;
  const ArrayDescriptor* descriptor;
};
struct Array3DCreate {
  Array** array;
  const Array3DDescriptor* descriptor;
};
struct ArrayDestroy {
  Array* array;
};
struct MipmappedArrayCreate {
  MipmappedArray** array;
  const Array3DDescriptor* descriptor;
  unsigned levels;
};
struct MipmappedArrayDestroy {
  MipmappedArray* array;
};
struct IpcGetMemHandle {
  IpcHandle* handle;
  DevicePointer pointer;
};
struct IpcOpenMemHandle {
  DevicePointer* pointer;
  IpcHandle handle;
  unsigned flags;
};
struct IpcCloseMemHandle {
  DevicePointer pointer;
};
struct ImportExternalMemory {
  ExternalMemory** memory;
  const ExternalMemoryHandle* descriptor;
};
struct ExternalMemoryGetMappedBuffer {
  DevicePointer* pointer;
  ExternalMemory* memory;
  const ExternalMemoryBuffer* descriptor;
};
struct DestroyExternalMemory {
  ExternalMemory* memory;
};
struct GraphAddMemAllocNode {
  GraphNode** node;
  Graph* graph;
  GraphNode* const* dependencies;
  std::size_t dependency_count;
  AllocNodeParameters* parameters;
};
struct GraphAddMemFreeNode {
  GraphNode** node;
  Graph* graph;
  GraphNode* const* dependencies;
  std::size_t dependency_count;
  DevicePointer pointer;
};
struct GraphAddNode {
  GraphNode** node;
  Graph* graph;
  GraphNode* const* dependencies;
  const void* edges;
  std::size_t dependency_count;
  NodeParameters* parameters;
};
struct GraphInstantiateWithFlags {
  GraphExec** exec;
  Graph* graph;
  unsigned long long flags;
};
struct GraphLaunch {
  GraphExec* exec;
  Stream* stream;
};
struct GraphExecDestroy {
  GraphExec* exec;
};
struct GraphDestroy {
  Graph* graph;
};
struct GraphMemTrim {
  DeviceNumber device;
};
struct StreamBeginCapture {
  Stream* stream;
  int mode;
};
struct StreamEndCapture {
  Stream* stream;
  Graph** graph;
};
struct StreamSynchronize {
  Stream* stream;
};
struct CtxCreate {
  Context** context;
  unsigned flags;
  DeviceNumber device;
};
struct CtxDestroy {
  Context* context;
};
struct GreenCtxCreate {
  GreenContext** green;
  ResourceDescriptor* resources;
  DeviceNumber device;
  unsigned flags;
};
struct GreenCtxDestroy {
  GreenContext* green;
};
struct CtxFromGreenCtx {
  Context** context;
  GreenContext* green;
};
struct PrimaryCtxRetain {
  Context** context;
  DeviceNumber device;
};
struct PrimaryCtx {
  DeviceNumber device;
};
struct Nothing {
  int dummy;
};

}  // namespace arguments

// CUPTI.
namespace cupti {

using Result = int;  // CUptiResult
inline constexpr Result ok = 0, invalid_parameter = 1, not_initialized = 15, taken = 39, unknown = 999;

inline constexpr unsigned driver_domain = 1, resource_domain = 3;
inline constexpr unsigned context_created = 1, context_destroy_starting = 2, graph_node_create_starting = 12,
                          graph_node_created = 13;
inline constexpr int enter = 0, exit = 1;  // CUpti_ApiCallbackSite

struct CallbackData {
  int site = enter;
  const char* function = nullptr;
  const void* arguments = nullptr;
  void* return_value = nullptr;  // valid at exit
  const char* symbol = nullptr;
  Context* context = nullptr;
  std::uint32_t context_number = 0;
  std::uint64_t* correlation_data = nullptr;
  std::uint32_t correlation = 0;
};
static_assert(sizeof(CallbackData) == 72);

struct ResourceData {
  Context* context = nullptr;
  Stream* stream = nullptr;
  void* descriptor = nullptr;
};

struct GraphData {
  Graph* graph = nullptr;
  Graph* original_graph = nullptr;
  GraphNode* node = nullptr;
  GraphNode* original_node = nullptr;
  int node_type = 0;
  GraphNode* dependency = nullptr;
  GraphExec* exec = nullptr;
};
inline constexpr int alloc_node = 10, free_node = 11;

struct SubscriberParameters {
  static constexpr std::size_t size_13_0 = 32;  // without the fields added in 13.2

  std::size_t struct_size = 0;
  const char* name = nullptr;
  char* holder = nullptr;  // receives the name of CUPTI's current owner; at least 64 bytes
  std::size_t holder_size = 0;
  std::uint8_t allow_multiple = 0;  // since 13.2
  std::array<std::uint8_t, 7> reserved{};
};
static_assert(sizeof(SubscriberParameters) == 40);

struct Subscriber;
using Callback = void (*)(void* user, unsigned domain, unsigned id, const void* data);

}  // namespace cupti

/// How libcupti observes libcuda. The real libraries use a private table; here it is the symbol `fake_cuda_listener`, a
/// pointer that libcupti sets while there are subscribers.
struct Listener {
  /// Whether calls or resources with this number are of interest. Called on any thread, at any time.
  virtual bool wants(unsigned domain, unsigned id) const = 0;
  virtual void notify(unsigned domain, unsigned id, const void* data) = 0;

 protected:
  ~Listener() = default;  // trivial: while the process exits, other threads still call it
};

}  // namespace fake
