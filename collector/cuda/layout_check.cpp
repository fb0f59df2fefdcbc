// SPDX-License-Identifier: Apache-2.0
// Compiled if a CUDA toolkit is present: checks that our copies of its numbers and structures match.
#include <cuda.h>
#include <cupti.h>

#include "collector/cuda/calls.h"
#include "collector/cuda/cupti_backend.h"

namespace memreel::cuda {
namespace {

template <Call call, int number, class Ours, class Theirs>
consteval bool matches() {
  static_assert(static_cast<int>(call) == number);
  static_assert(sizeof(Ours) == sizeof(Theirs));
  static_assert(alignof(Ours) == alignof(Theirs));
  return true;
}

#define MATCHES(call, ours, name) \
  static_assert(matches<Call::call, CUPTI_DRIVER_TRACE_CBID_##name, params::ours, name##_params>(), #name)
#define SAME_PLACE(ours, member, theirs, their_member) \
  static_assert(offsetof(params::ours, member) == offsetof(theirs##_params, their_member), #theirs)

MATCHES(mem_alloc, MemAlloc, cuMemAlloc_v2);
MATCHES(mem_alloc_pitch, MemAllocPitch, cuMemAllocPitch_v2);
SAME_PLACE(MemAllocPitch, height, cuMemAllocPitch_v2, Height);
MATCHES(mem_alloc_managed, MemAllocManaged, cuMemAllocManaged);
MATCHES(mem_free, MemFree, cuMemFree_v2);
MATCHES(mem_alloc_host, MemAllocHost, cuMemAllocHost_v2);
MATCHES(mem_host_alloc, MemHostAlloc, cuMemHostAlloc);
#if CUDA_VERSION < 13050
static_assert(static_cast<int>(Call::mem_host_alloc_v2) == CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2);
#endif
MATCHES(mem_free_host, MemFreeHost, cuMemFreeHost);
MATCHES(mem_host_register, MemHostRegister, cuMemHostRegister_v2);
MATCHES(mem_host_register_v1, MemHostRegister, cuMemHostRegister);
MATCHES(mem_host_unregister, MemHostUnregister, cuMemHostUnregister);
MATCHES(mem_alloc_async, MemAllocAsync, cuMemAllocAsync);
MATCHES(mem_alloc_async_ptsz, MemAllocAsync, cuMemAllocAsync_ptsz);
MATCHES(mem_alloc_from_pool_async, MemAllocFromPoolAsync, cuMemAllocFromPoolAsync);
MATCHES(mem_alloc_from_pool_async_ptsz, MemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz);
SAME_PLACE(MemAllocFromPoolAsync, stream, cuMemAllocFromPoolAsync, hStream);
MATCHES(mem_free_async, MemFreeAsync, cuMemFreeAsync);
MATCHES(mem_free_async_ptsz, MemFreeAsync, cuMemFreeAsync_ptsz);
MATCHES(mem_pool_create, MemPoolCreate, cuMemPoolCreate);
MATCHES(mem_pool_destroy, MemPoolDestroy, cuMemPoolDestroy);
MATCHES(device_set_mem_pool, DeviceSetMemPool, cuDeviceSetMemPool);
SAME_PLACE(DeviceSetMemPool, pool, cuDeviceSetMemPool, pool);
MATCHES(device_get_mem_pool, DeviceGetMemPool, cuDeviceGetMemPool);
MATCHES(device_get_default_mem_pool, DeviceGetMemPool, cuDeviceGetDefaultMemPool);
MATCHES(mem_pool_import_from_shareable_handle, MemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle);
MATCHES(mem_pool_import_pointer, MemPoolImportPointer, cuMemPoolImportPointer);
MATCHES(mem_address_reserve, MemAddressReserve, cuMemAddressReserve);
MATCHES(mem_address_free, MemAddressFree, cuMemAddressFree);
MATCHES(mem_create, MemCreate, cuMemCreate);
MATCHES(mem_release, MemRelease, cuMemRelease);
MATCHES(mem_map, MemMap, cuMemMap);
SAME_PLACE(MemMap, offset, cuMemMap, offset);
SAME_PLACE(MemMap, handle, cuMemMap, handle);
MATCHES(mem_unmap, MemUnmap, cuMemUnmap);
MATCHES(mem_import_from_shareable_handle, MemImportFromShareableHandle, cuMemImportFromShareableHandle);
MATCHES(mem_retain_allocation_handle, MemRetainAllocationHandle, cuMemRetainAllocationHandle);
MATCHES(array_create, ArrayCreate, cuArrayCreate_v2);
MATCHES(array_3d_create, Array3dCreate, cuArray3DCreate_v2);
MATCHES(array_destroy, ArrayDestroy, cuArrayDestroy);
MATCHES(mipmapped_array_create, MipmappedArrayCreate, cuMipmappedArrayCreate);
MATCHES(mipmapped_array_destroy, ArrayDestroy, cuMipmappedArrayDestroy);
MATCHES(external_memory_get_mapped_buffer, ExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer);
MATCHES(ipc_open_mem_handle, IpcOpenMemHandle, cuIpcOpenMemHandle);
MATCHES(ipc_open_mem_handle_v2, IpcOpenMemHandle, cuIpcOpenMemHandle_v2);
MATCHES(ipc_close_mem_handle, IpcCloseMemHandle, cuIpcCloseMemHandle);
MATCHES(graph_add_mem_alloc_node, GraphAddMemAllocNode, cuGraphAddMemAllocNode);
MATCHES(graph_add_mem_free_node, GraphAddMemFreeNode, cuGraphAddMemFreeNode);
MATCHES(ctx_create_v2, CtxCreateV2, cuCtxCreate_v2);
MATCHES(ctx_create_v3, CtxCreateV3, cuCtxCreate_v3);
MATCHES(ctx_destroy, CtxDestroy, cuCtxDestroy);
MATCHES(ctx_destroy_v2, CtxDestroy, cuCtxDestroy_v2);
MATCHES(ctx_detach, CtxDestroy, cuCtxDetach);
MATCHES(primary_ctx_retain, PrimaryCtxRetain, cuDevicePrimaryCtxRetain);
MATCHES(primary_ctx_release, PrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
MATCHES(primary_ctx_release_v1, PrimaryCtxRelease, cuDevicePrimaryCtxRelease);
MATCHES(primary_ctx_reset, PrimaryCtxRelease, cuDevicePrimaryCtxReset_v2);
MATCHES(primary_ctx_reset_v1, PrimaryCtxRelease, cuDevicePrimaryCtxReset);
#if CUDA_VERSION >= 12020
MATCHES(graph_add_node, GraphAddNode, cuGraphAddNode);
#endif
#if CUDA_VERSION >= 12030
MATCHES(graph_add_node_v2, GraphAddNodeV2, cuGraphAddNode_v2);
static_assert(offsetof(GraphNode, alloc) == offsetof(CUgraphNodeParams, alloc));
#endif
#if CUDA_VERSION >= 12050
MATCHES(ctx_create_v4, CtxCreateV4, cuCtxCreate_v4);
#endif
#if CUDA_VERSION >= 12040
MATCHES(green_ctx_create, GreenCtxCreate, cuGreenCtxCreate);
SAME_PLACE(GreenCtxCreate, device, cuGreenCtxCreate, dev);
MATCHES(ctx_from_green_ctx, CtxFromGreenCtx, cuCtxFromGreenCtx);
#endif
#if CUDA_VERSION >= 13000
MATCHES(mem_get_mem_pool, MemGetMemPool, cuMemGetMemPool);
MATCHES(mem_get_default_mem_pool, MemGetMemPool, cuMemGetDefaultMemPool);
SAME_PLACE(MemGetMemPool, allocation_type, cuMemGetMemPool, type);
MATCHES(mem_set_mem_pool, MemSetMemPool, cuMemSetMemPool);
SAME_PLACE(MemSetMemPool, pool, cuMemSetMemPool, pool);
#endif
#if CUDA_VERSION >= 13040
MATCHES(graph_add_node_v3, GraphAddNodeV2, cuGraphAddNode_v3);
#endif
#undef MATCHES
#undef SAME_PLACE

static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps));
static_assert(offsetof(PoolProperties, location) == offsetof(CUmemPoolProps, location));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(sizeof(ArrayDescriptor) == sizeof(CUDA_ARRAY_DESCRIPTOR));
static_assert(sizeof(Array3dDescriptor) == sizeof(CUDA_ARRAY3D_DESCRIPTOR));
static_assert(sizeof(MemAllocNode) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(offsetof(MemAllocNode, address) == offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr));
static_assert(offsetof(ExternalBuffer, size) == offsetof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size));
static_assert(sizeof(Location) == sizeof(CUmemLocation) && offsetof(Location, id) == offsetof(CUmemLocation, id));
static_assert(Location::device == CU_MEM_LOCATION_TYPE_DEVICE && pinned_memory == CU_MEM_ALLOCATION_TYPE_PINNED);
#if CUDA_VERSION >= 13000
static_assert(Location::none == CU_MEM_LOCATION_TYPE_NONE && managed_memory == CU_MEM_ALLOCATION_TYPE_MANAGED);
#endif
#if CUDA_VERSION >= 13020
static_assert(Location::invisible == CU_MEM_LOCATION_TYPE_INVISIBLE);
#endif
#if CUDA_VERSION >= 13040
static_assert(Location::locality_domain == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN);
static_assert(offsetof(CUmemLocation, localized.deviceId) == offsetof(CUmemLocation, id));
#endif
static_assert(mem_alloc_node == CU_GRAPH_NODE_TYPE_MEM_ALLOC && mem_free_node == CU_GRAPH_NODE_TYPE_MEM_FREE);

static_assert(sizeof(cupti::CallbackData) == sizeof(CUpti_CallbackData));
static_assert(offsetof(cupti::CallbackData, parameters) == offsetof(CUpti_CallbackData, functionParams));
static_assert(offsetof(cupti::CallbackData, result) == offsetof(CUpti_CallbackData, functionReturnValue));
static_assert(offsetof(cupti::CallbackData, context) == offsetof(CUpti_CallbackData, context));
static_assert(offsetof(cupti::CallbackData, slot) == offsetof(CUpti_CallbackData, correlationData));
static_assert(sizeof(cupti::ResourceData) == sizeof(CUpti_ResourceData));
static_assert(offsetof(cupti::GraphData, node_type) == offsetof(CUpti_GraphData, nodeType));
static_assert(cupti::domain_driver == CUPTI_CB_DOMAIN_DRIVER_API && cupti::domain_resource == CUPTI_CB_DOMAIN_RESOURCE);
static_assert(cupti::context_created == CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
static_assert(cupti::context_destroy_starting == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
static_assert(cupti::graph_node_create_starting == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING);
static_assert(cupti::multiple_subscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
#if CUPTI_API_VERSION >= 130000
static_assert(cupti::params_size_13_0 <= sizeof(CUpti_SubscriberParams));
static_assert(offsetof(cupti::SubscriberParams, old_name_size) == offsetof(CUpti_SubscriberParams, oldSubscriberSize));
#endif
#if CUPTI_API_VERSION >= 130200
static_assert(sizeof(cupti::SubscriberParams) == CUpti_SubscriberParams_STRUCT_SIZE);
static_assert(offsetof(cupti::SubscriberParams, allow_multiple) ==
              offsetof(CUpti_SubscriberParams, allowMultipleSubscribers));
#elif CUPTI_API_VERSION >= 130000
static_assert(cupti::params_size_13_0 == CUpti_SubscriberParams_STRUCT_SIZE);
#endif
static_assert(cupti::not_initialized == CUPTI_ERROR_NOT_INITIALIZED &&
              cupti::not_supported == CUPTI_ERROR_NOT_SUPPORTED);

}  // namespace
}  // namespace memreel::cuda
