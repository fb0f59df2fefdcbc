// SPDX-License-Identifier: Apache-2.0
// The driver functions that the test programs call, declared as libcuda.so.1 exports them. A program linked against the
// fake library also runs on the real one.
#pragma once

#include "tests/fake/abi.h"

extern "C" {

fake::Status cuInit(unsigned flags);
fake::Status cuDeviceGetCount(int* count);
fake::Status cuDevicePrimaryCtxRetain(fake::Context** context, fake::DeviceNumber device);
fake::Status cuDevicePrimaryCtxRelease_v2(fake::DeviceNumber device);
fake::Status cuCtxCreate_v2(fake::Context** context, unsigned flags, fake::DeviceNumber device);
fake::Status cuCtxDestroy_v2(fake::Context* context);
fake::Status cuCtxSetCurrent(fake::Context* context);
fake::Status cuCtxSynchronize();
fake::Status cuCtxEnablePeerAccess(fake::Context* peer, unsigned flags);
fake::Status cuMemcpyPeer(fake::DevicePointer to, fake::Context* context_to, fake::DevicePointer from,
                          fake::Context* context_from, std::size_t size);
fake::Status cuIpcGetMemHandle(fake::IpcHandle* handle, fake::DevicePointer pointer);
fake::Status cuIpcOpenMemHandle_v2(fake::DevicePointer* pointer, fake::IpcHandle handle, unsigned flags);
fake::Status cuIpcCloseMemHandle(fake::DevicePointer pointer);
fake::Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
fake::Status cuMemAlloc_v2(fake::DevicePointer* pointer, std::size_t size);
fake::Status cuMemAllocPitch_v2(fake::DevicePointer* pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                                unsigned element_size);
fake::Status cuMemFree_v2(fake::DevicePointer pointer);
fake::Status cuMemAllocManaged(fake::DevicePointer* pointer, std::size_t size, unsigned flags);
fake::Status cuMemAllocHost_v2(void** pointer, std::size_t size);
fake::Status cuMemHostAlloc(void** pointer, std::size_t size, unsigned flags);
fake::Status cuMemFreeHost(void* pointer);
fake::Status cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags);
fake::Status cuMemHostUnregister(void* pointer);
fake::Status cuArray3DCreate_v2(fake::Array** array, const fake::Array3DDescriptor* descriptor);
fake::Status cuArrayDestroy(fake::Array* array);
fake::Status cuMemAddressReserve(fake::DevicePointer* pointer, std::size_t size, std::size_t alignment,
                                 fake::DevicePointer wanted, unsigned long long flags);
fake::Status cuMemAddressFree(fake::DevicePointer pointer, std::size_t size);
fake::Status cuMemCreate(fake::AllocationHandle* handle, std::size_t size, const fake::AllocationProperties* properties,
                         unsigned long long flags);
fake::Status cuMemRelease(fake::AllocationHandle handle);
fake::Status cuMemRetainAllocationHandle(fake::AllocationHandle* handle, void* address);
fake::Status cuMemMap(fake::DevicePointer pointer, std::size_t size, std::size_t offset, fake::AllocationHandle handle,
                      unsigned long long flags);
fake::Status cuMemUnmap(fake::DevicePointer pointer, std::size_t size);
fake::Status cuMemSetAccess(fake::DevicePointer pointer, std::size_t size, const fake::Access* access,
                            std::size_t count);
fake::Status cuDevicePrimaryCtxReset_v2(fake::DeviceNumber device);
fake::Status cuDeviceGetDevResource(fake::DeviceNumber device, void* resource, int type);
fake::Status cuDevResourceGenerateDesc(fake::ResourceDescriptor** descriptor, void* resources, unsigned count);
fake::Status cuGreenCtxCreate(fake::GreenContext** green, fake::ResourceDescriptor* resources,
                              fake::DeviceNumber device, unsigned flags);
fake::Status cuCtxFromGreenCtx(fake::Context** context, fake::GreenContext* green);
fake::Status cuGreenCtxDestroy(fake::GreenContext* green);
fake::Status cuDeviceGetDefaultMemPool(fake::Pool** pool, fake::DeviceNumber device);
fake::Status cuDeviceSetMemPool(fake::DeviceNumber device, fake::Pool* pool);
fake::Status cuMemGetDefaultMemPool(fake::Pool** pool, fake::Location* location, int type);
fake::Status cuMemGetMemPool(fake::Pool** pool, fake::Location* location, int type);
fake::Status cuMemSetMemPool(fake::Location* location, int type, fake::Pool* pool);
fake::Status cuGraphAddNode_v3(fake::GraphNode** node, fake::Graph* graph, fake::GraphNode* const* dependencies,
                               const void* edges, std::size_t count, fake::NodeParameters* parameters);
fake::Status cuStreamCreate(fake::Stream** stream, unsigned flags);
fake::Status cuStreamDestroy_v2(fake::Stream* stream);
fake::Status cuStreamSynchronize(fake::Stream* stream);
fake::Status cuStreamBeginCapture_v2(fake::Stream* stream, int mode);
fake::Status cuStreamEndCapture(fake::Stream* stream, fake::Graph** graph);
fake::Status cuMemPoolCreate(fake::Pool** pool, const fake::PoolProperties* properties);
fake::Status cuMemPoolDestroy(fake::Pool* pool);
fake::Status cuMemAllocAsync(fake::DevicePointer* pointer, std::size_t size, fake::Stream* stream);
fake::Status cuMemAllocFromPoolAsync(fake::DevicePointer* pointer, std::size_t size, fake::Pool* pool,
                                     fake::Stream* stream);
fake::Status cuMemFreeAsync(fake::DevicePointer pointer, fake::Stream* stream);
fake::Status cuGraphCreate(fake::Graph** graph, unsigned flags);
fake::Status cuGraphAddMemAllocNode(fake::GraphNode** node, fake::Graph* graph, fake::GraphNode* const* dependencies,
                                    std::size_t count, fake::AllocNodeParameters* parameters);
fake::Status cuGraphAddMemFreeNode(fake::GraphNode** node, fake::Graph* graph, fake::GraphNode* const* dependencies,
                                   std::size_t count, fake::DevicePointer pointer);
fake::Status cuGraphInstantiateWithFlags(fake::GraphExec** exec, fake::Graph* graph, unsigned long long flags);
fake::Status cuGraphLaunch(fake::GraphExec* exec, fake::Stream* stream);
fake::Status cuGraphExecDestroy(fake::GraphExec* exec);
fake::Status cuGraphDestroy(fake::Graph* graph);
}
