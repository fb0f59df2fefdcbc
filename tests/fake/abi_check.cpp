// SPDX-License-Identifier: Apache-2.0
// Compares the fakes' view of CUDA's ABI (abi.h, calls.inc) with CUDA's own headers. All
// checks happen at compile time.
#include <cuda.h>
#include <cupti.h>

#include <cstddef>

#include "tests/fake/abi.h"

namespace {

namespace ours = fake::arguments;

template <class Ours, class Theirs>
// NOLINTNEXTLINE(misc-redundant-expression): redundant only where the types agree
constexpr bool same_layout = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);

static_assert(same_layout<ours::MemAlloc, cuMemAlloc_v2_params>);
static_assert(same_layout<ours::MemAllocPitch, cuMemAllocPitch_v2_params>);
static_assert(same_layout<ours::MemAllocManaged, cuMemAllocManaged_params>);
static_assert(same_layout<ours::MemFree, cuMemFree_v2_params>);
static_assert(same_layout<ours::MemAllocHost, cuMemAllocHost_v2_params>);
static_assert(same_layout<ours::MemHostAlloc, cuMemHostAlloc_params>);
static_assert(same_layout<ours::MemFreeHost, cuMemFreeHost_params>);
static_assert(same_layout<ours::MemHostRegister, cuMemHostRegister_v2_params>);
static_assert(same_layout<ours::MemFreeHost, cuMemHostUnregister_params>);
static_assert(same_layout<ours::MemAllocAsync, cuMemAllocAsync_params>);
static_assert(same_layout<ours::MemAllocFromPoolAsync, cuMemAllocFromPoolAsync_params>);
static_assert(offsetof(ours::MemAllocFromPoolAsync, pool) == offsetof(cuMemAllocFromPoolAsync_params, pool));
static_assert(same_layout<ours::MemFreeAsync, cuMemFreeAsync_params>);
static_assert(same_layout<ours::MemPoolCreate, cuMemPoolCreate_params>);
static_assert(same_layout<ours::MemPoolTrimTo, cuMemPoolTrimTo_params>);
static_assert(same_layout<ours::MemPoolSetAttribute, cuMemPoolSetAttribute_params>);
static_assert(same_layout<ours::DeviceSetMemPool, cuDeviceSetMemPool_params>);
static_assert(same_layout<ours::MemAddressReserve, cuMemAddressReserve_params>);
static_assert(same_layout<ours::MemAddressFree, cuMemAddressFree_params>);
static_assert(same_layout<ours::MemCreate, cuMemCreate_params>);
static_assert(same_layout<ours::MemRelease, cuMemRelease_params>);
static_assert(same_layout<ours::MemMap, cuMemMap_params>);
static_assert(offsetof(ours::MemMap, handle) == offsetof(cuMemMap_params, handle));
static_assert(same_layout<ours::MemUnmap, cuMemUnmap_params>);
static_assert(same_layout<ours::MemSetAccess, cuMemSetAccess_params>);
static_assert(same_layout<ours::MemRetainAllocationHandle, cuMemRetainAllocationHandle_params>);
static_assert(same_layout<ours::ArrayCreate, cuArrayCreate_v2_params>);
static_assert(same_layout<ours::Array3DCreate, cuArray3DCreate_v2_params>);
static_assert(same_layout<ours::MipmappedArrayCreate, cuMipmappedArrayCreate_params>);
static_assert(same_layout<ours::IpcOpenMemHandle, cuIpcOpenMemHandle_v2_params>);
static_assert(same_layout<ours::ImportExternalMemory, cuImportExternalMemory_params>);
static_assert(same_layout<ours::ExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer_params>);
static_assert(same_layout<ours::GraphAddMemAllocNode, cuGraphAddMemAllocNode_params>);
static_assert(same_layout<ours::GraphAddMemFreeNode, cuGraphAddMemFreeNode_params>);
static_assert(same_layout<ours::GraphInstantiateWithFlags, cuGraphInstantiateWithFlags_params>);
static_assert(same_layout<ours::GraphLaunch, cuGraphLaunch_params>);
static_assert(same_layout<ours::StreamBeginCapture, cuStreamBeginCapture_v2_params>);
static_assert(same_layout<ours::StreamEndCapture, cuStreamEndCapture_params>);
static_assert(same_layout<ours::CtxCreate, cuCtxCreate_v2_params>);
static_assert(same_layout<ours::PrimaryCtxRetain, cuDevicePrimaryCtxRetain_params>);
static_assert(same_layout<ours::PrimaryCtx, cuDevicePrimaryCtxRelease_v2_params>);

static_assert(same_layout<fake::PoolProperties, CUmemPoolProps>);
static_assert(offsetof(fake::PoolProperties, location) == offsetof(CUmemPoolProps, location));
#if CUDA_VERSION >= 12040
static_assert(offsetof(fake::PoolProperties, max_size) == offsetof(CUmemPoolProps, maxSize));
static_assert(same_layout<ours::GreenCtxCreate, cuGreenCtxCreate_params>);
static_assert(same_layout<ours::CtxFromGreenCtx, cuCtxFromGreenCtx_params>);
static_assert(same_layout<fake::NodeParameters, CUgraphNodeParams>);
static_assert(offsetof(fake::NodeParameters, alloc) == offsetof(CUgraphNodeParams, alloc));
#endif
#if CUDA_VERSION >= 13000
static_assert(same_layout<ours::MemGetMemPool, cuMemGetMemPool_params>);
static_assert(same_layout<ours::MemSetMemPool, cuMemSetMemPool_params>);
static_assert(fake::Location::none == CU_MEM_LOCATION_TYPE_NONE &&
              fake::managed_memory == CU_MEM_ALLOCATION_TYPE_MANAGED);
#endif
#if CUDA_VERSION >= 13040
static_assert(fake::Location::locality_domain == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN);
static_assert(same_layout<ours::GraphAddNode, cuGraphAddNode_v3_params>);
#endif
static_assert(same_layout<ours::DeviceGetMemPool, cuDeviceGetMemPool_params>);
static_assert(sizeof(fake::Location) == sizeof(CUmemLocation));
static_assert(same_layout<fake::AllocationProperties, CUmemAllocationProp>);
static_assert(offsetof(fake::AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(same_layout<fake::Access, CUmemAccessDesc>);
static_assert(same_layout<fake::ArrayDescriptor, CUDA_ARRAY_DESCRIPTOR>);
static_assert(same_layout<fake::Array3DDescriptor, CUDA_ARRAY3D_DESCRIPTOR>);
static_assert(same_layout<fake::AllocNodeParameters, CUDA_MEM_ALLOC_NODE_PARAMS>);
static_assert(offsetof(fake::AllocNodeParameters, pointer) == offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr));
static_assert(same_layout<fake::IpcHandle, CUipcMemHandle>);
static_assert(same_layout<fake::ExternalMemoryHandle, CUDA_EXTERNAL_MEMORY_HANDLE_DESC>);
static_assert(offsetof(fake::ExternalMemoryHandle, size) == offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size));
static_assert(same_layout<fake::ExternalMemoryBuffer, CUDA_EXTERNAL_MEMORY_BUFFER_DESC>);

static_assert(same_layout<fake::cupti::CallbackData, CUpti_CallbackData>);
static_assert(offsetof(fake::cupti::CallbackData, arguments) == offsetof(CUpti_CallbackData, functionParams));
static_assert(offsetof(fake::cupti::CallbackData, return_value) == offsetof(CUpti_CallbackData, functionReturnValue));
static_assert(offsetof(fake::cupti::CallbackData, context) == offsetof(CUpti_CallbackData, context));
static_assert(offsetof(fake::cupti::CallbackData, correlation) == offsetof(CUpti_CallbackData, correlationId));
static_assert(same_layout<fake::cupti::ResourceData, CUpti_ResourceData>);
static_assert(same_layout<fake::cupti::GraphData, CUpti_GraphData>);
static_assert(offsetof(fake::cupti::GraphData, node_type) == offsetof(CUpti_GraphData, nodeType));
static_assert(fake::cupti::taken == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(fake::cupti::graph_node_create_starting == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING);
static_assert(fake::cupti::graph_node_created == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
static_assert(fake::cupti::alloc_node == CU_GRAPH_NODE_TYPE_MEM_ALLOC);

#define CALL(symbol, number) static_assert(CUPTI_DRIVER_TRACE_CBID_##symbol == (number));
#include "tests/fake/calls.inc"

}  // namespace
