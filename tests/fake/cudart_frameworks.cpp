// SPDX-License-Identifier: Apache-2.0
// The part of the fake libcudart.so that PyTorch and other frameworks call beyond what the samples need. Kernel
// launches and copies do nothing, so tensor contents are never right; what is allocated, and when, is.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/fake/cuda_functions.h"
#include "tests/fake/cudart.h"

using fake::device, fake::Status, fake::noted, fake::use_context;

namespace {

thread_local int capture_mode = 0;

/// The first fields of cudaDeviceProp, the same in all versions since 12.0.
struct DeviceProperties {
  std::array<char, 256> name;
  std::array<char, 16> uuid;
  std::array<char, 8> luid;
  unsigned luid_mask;
  std::size_t memory, shared_per_block;
  int registers, warp;
  std::size_t pitch;
  int threads_per_block;
  std::array<int, 3> block, grid;
};

/// cudaPointerAttributes.
struct PointerAttributes {
  int type = 0, device = 0;
  void *on_device = nullptr, *on_host = nullptr;
};

}  // namespace

extern "C" {

Status cuPointerGetAttribute(void* value, int attribute, fake::DevicePointer pointer);
Status cuDeviceTotalMem_v2(std::size_t* size, fake::DeviceNumber device);
Status cuDeviceGetPCIBusId(char* text, int size, fake::DeviceNumber device);
Status cuEventCreate(fake::Event** event, unsigned flags);
Status cuEventRecord(fake::Event* event, fake::Stream* stream);
Status cuEventQuery(fake::Event* event);
Status cuEventSynchronize(fake::Event* event);
Status cuEventDestroy_v2(fake::Event* event);
Status cuStreamWaitEvent(fake::Stream* stream, fake::Event* event, unsigned flags);
Status cuStreamCreateWithPriority(fake::Stream** stream, unsigned flags, int priority);
Status cuStreamIsCapturing(fake::Stream* stream, int* status);
Status cuStreamGetCaptureInfo_v2(fake::Stream* stream, int* status, std::uint64_t* number, fake::Graph** graph,
                                 void*** dependencies, std::size_t* count);
Status cuDeviceGetDefaultMemPool(fake::Pool** pool, fake::DeviceNumber device);
Status cuMemPoolTrimTo(fake::Pool* pool, std::size_t keep);
Status cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* found);

// ---- devices

Status cudaGetDeviceCount(int* count) { return cuInit(0), cuDeviceGetCount(count); }
Status cudaGetDevice(int* number) { return *number = fake::current_device(), fake::success; }
Status cudaSetDevice(int number) { return fake::set_device(number), fake::success; }
Status cudaInitDevice(int number, unsigned, unsigned) { return cudaSetDevice(number); }
Status cudaDeviceGetPCIBusId(char* text, int size, int number) { return cuDeviceGetPCIBusId(text, size, number); }
Status cudaDriverGetVersion(int* version) { return *version = 13000, fake::success; }
Status cudaRuntimeGetVersion(int* version) { return *version = 13000, fake::success; }
Status cudaDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int multiprocessors = 16, threads_per_multiprocessor = 39, major = 75, minor = 76;
  *value = attribute == multiprocessors              ? 132
           : attribute == threads_per_multiprocessor ? 2048
           : attribute == major                      ? 9
           : attribute == minor                      ? 0
                                                     : 1;
  return fake::success;
}

/// CUDA 12 has deviceOverlap before the multiprocessor count, CUDA 13 does not: both offsets are filled in.
Status cudaGetDeviceProperties_v2(void* properties, int number) {
  cuInit(0);
  auto* const known = static_cast<DeviceProperties*>(properties);
  std::strncpy(known->name.data(), "Fake GPU", known->name.size());
  known->uuid.fill(static_cast<char>(number + 1));
  cuDeviceTotalMem_v2(&known->memory, number);
  known->shared_per_block = 48U << 10U;
  known->registers = 65536;
  known->warp = 32;
  known->threads_per_block = 1024;
  known->block = {1024, 1024, 64};
  known->grid = {2147483647, 65535, 65535};
  constexpr std::size_t major = 360, overlap = 384;
  const auto put = [&](std::size_t offset, int value) {
    std::memcpy(static_cast<char*>(properties) + offset, &value, sizeof value);
  };
  put(major, 9);
  put(overlap, 132);
  put(overlap + sizeof(int), 132);
  return fake::success;
}
Status cudaGetDeviceProperties(void* properties, int number) { return cudaGetDeviceProperties_v2(properties, number); }
Status cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 1, fake::success; }
Status cudaDeviceEnablePeerAccess(int, unsigned) { return fake::success; }
Status cudaPeekAtLastError() { return fake::success; }
const char* cudaGetErrorName(Status status) {
  return status == fake::out_of_memory ? "cudaErrorMemoryAllocation" : "error";
}

Status cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version, unsigned long long flags,
                                        int* found) {
  cuInit(0);
  return cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, found);
}
Status cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags, int* found) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 13000, flags, found);
}

// ---- streams, events, capture

Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return fake::success;
}
Status cudaStreamCreateWithPriority(fake::Stream** stream, unsigned flags, int priority) {
  return use_context(), noted(cuStreamCreateWithPriority(stream, flags, priority));
}
Status cudaStreamCreateWithFlags(fake::Stream** stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
Status cudaStreamGetPriority(fake::Stream*, int* priority) { return *priority = 0, fake::success; }
Status cudaStreamQuery(fake::Stream*) { return fake::success; }
Status cudaStreamWaitEvent(fake::Stream* stream, fake::Event* event, unsigned flags) {
  return cuStreamWaitEvent(stream, event, flags);
}
Status cudaEventCreateWithFlags(fake::Event** event, unsigned flags) { return cuEventCreate(event, flags); }
Status cudaEventCreate(fake::Event** event) { return cuEventCreate(event, 0); }
Status cudaEventRecord(fake::Event* event, fake::Stream* stream) { return cuEventRecord(event, stream); }
Status cudaEventRecordWithFlags(fake::Event* event, fake::Stream* stream, unsigned) {
  return cuEventRecord(event, stream);
}
Status cudaEventQuery(fake::Event* event) { return noted(cuEventQuery(event)); }
Status cudaEventSynchronize(fake::Event* event) { return cuEventSynchronize(event); }
Status cudaEventDestroy(fake::Event* event) { return cuEventDestroy_v2(event); }
Status cudaEventElapsedTime(float* milliseconds, fake::Event*, fake::Event*) {
  return *milliseconds = 1, fake::success;
}
Status cudaStreamIsCapturing(fake::Stream* stream, int* status) { return cuStreamIsCapturing(stream, status); }
Status cudaStreamGetCaptureInfo_v2(fake::Stream* stream, int* status, unsigned long long* number, fake::Graph** graph,
                                   void*** dependencies, std::size_t* count) {
  std::uint64_t id = 0;
  const Status answer = cuStreamGetCaptureInfo_v2(stream, status, &id, graph, dependencies, count);
  if (number != nullptr) *number = id;
  return answer;
}
Status cudaStreamGetCaptureInfo_v3(fake::Stream* stream, int* status, unsigned long long* number, fake::Graph** graph,
                                   void*** dependencies, void*, std::size_t* count) {
  return cudaStreamGetCaptureInfo_v2(stream, status, number, graph, dependencies, count);
}
/// CUDA 13's signature. CUDA 12's has only the first three parameters; the others then hold garbage.
Status cudaStreamGetCaptureInfo(fake::Stream* stream, int* status, unsigned long long* number, fake::Graph** graph,
                                void***, void*, std::size_t*) {
  return cudaStreamGetCaptureInfo_v2(stream, status, number, FAKE_CUDART_MAJOR >= 13 ? graph : nullptr, nullptr,
                                     nullptr);
}
Status cudaThreadExchangeStreamCaptureMode(int* mode) { return std::swap(*mode, capture_mode), fake::success; }
Status cudaGraphInstantiateWithFlags(fake::GraphExec** exec, fake::Graph* graph, unsigned long long flags) {
  return noted(cuGraphInstantiateWithFlags(exec, graph, flags));
}
/// Returns one node; with none, PyTorch warns about an empty graph.
Status cudaGraphGetNodes(fake::Graph*, fake::GraphNode** nodes, std::size_t* count) {
  if (nodes == nullptr) *count = 1;
  return fake::success;
}

// ---- memory

Status cudaHostAlloc(void** pointer, std::size_t size, unsigned flags) {
  return use_context(), noted(cuMemHostAlloc(pointer, size, flags));
}
Status cudaMallocHost(void** pointer, std::size_t size) { return cudaHostAlloc(pointer, size, 0); }
Status cudaFreeHost(void* pointer) { return cuMemFreeHost(pointer); }
Status cudaHostRegister(void* pointer, std::size_t size, unsigned flags) {
  return use_context(), noted(cuMemHostRegister_v2(pointer, size, flags));
}
Status cudaHostUnregister(void* pointer) { return cuMemHostUnregister(pointer); }
/// Knows page-locked memory; all else is unregistered, as PyTorch's is_pinned() wants it.
Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  constexpr int memory_type = 2;
  *attributes = {};
  return cuPointerGetAttribute(&attributes->type, memory_type, reinterpret_cast<fake::DevicePointer>(pointer)),
         fake::success;
}
Status cudaMallocManaged(void** pointer, std::size_t size, unsigned flags) {
  return use_context(), noted(cuMemAllocManaged(device(pointer), size, flags));
}
Status cudaDeviceGetDefaultMemPool(fake::Pool** pool, int number) {
  return use_context(), cuDeviceGetDefaultMemPool(pool, number);
}
Status cudaMemPoolTrimTo(fake::Pool* pool, std::size_t keep) { return cuMemPoolTrimTo(pool, keep); }
}
