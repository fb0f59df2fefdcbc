// SPDX-License-Identifier: Apache-2.0
// Compares the fakes' view of CUDA's ABI (abi.h, and the callback ids in the sources) with CUDA's own headers. All
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
static_assert(CUPTI_DRIVER_TRACE_CBID_cuGreenCtxCreate == 743 && CUPTI_DRIVER_TRACE_CBID_cuGreenCtxDestroy == 744 &&
              CUPTI_DRIVER_TRACE_CBID_cuCtxFromGreenCtx == 753);
#endif
#if CUDA_VERSION >= 13000
static_assert(same_layout<ours::MemGetMemPool, cuMemGetMemPool_params>);
static_assert(same_layout<ours::MemSetMemPool, cuMemSetMemPool_params>);
static_assert(fake::Location::none == CU_MEM_LOCATION_TYPE_NONE &&
              fake::managed_memory == CU_MEM_ALLOCATION_TYPE_MANAGED);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemGetDefaultMemPool == 801 && CUPTI_DRIVER_TRACE_CBID_cuMemGetMemPool == 802 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemSetMemPool == 803);
#endif
#if CUDA_VERSION >= 13040
static_assert(fake::Location::locality_domain == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN);
static_assert(same_layout<ours::GraphAddNode, cuGraphAddNode_v3_params>);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode_v3 == 863);
#endif
static_assert(same_layout<ours::DeviceGetMemPool, cuDeviceGetMemPool_params>);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuDeviceGetDefaultMemPool == 606 &&
              CUPTI_DRIVER_TRACE_CBID_cuDeviceGetMemPool == 610);
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

// The callback ids in libcuda.cpp, memory.cpp, streams.cpp and vmm.cpp.
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2 == 243 && CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2 == 244 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2 == 245 && CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged == 371 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2 == 294 && CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc == 39 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost == 38 && CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2 == 379 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister == 302);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuArrayCreate_v2 == 272 && CUPTI_DRIVER_TRACE_CBID_cuArray3DCreate_v2 == 274 &&
              CUPTI_DRIVER_TRACE_CBID_cuArrayDestroy == 89 && CUPTI_DRIVER_TRACE_CBID_cuMipmappedArrayCreate == 347 &&
              CUPTI_DRIVER_TRACE_CBID_cuMipmappedArrayDestroy == 349);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuIpcOpenMemHandle_v2 == 567 &&
              CUPTI_DRIVER_TRACE_CBID_cuIpcCloseMemHandle == 330 &&
              CUPTI_DRIVER_TRACE_CBID_cuImportExternalMemory == 485 &&
              CUPTI_DRIVER_TRACE_CBID_cuExternalMemoryGetMappedBuffer == 486 &&
              CUPTI_DRIVER_TRACE_CBID_cuDestroyExternalMemory == 488);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemAddressReserve == 547 && CUPTI_DRIVER_TRACE_CBID_cuMemAddressFree == 548 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemCreate == 549 && CUPTI_DRIVER_TRACE_CBID_cuMemRelease == 550 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemMap == 551 && CUPTI_DRIVER_TRACE_CBID_cuMemUnmap == 552 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemSetAccess == 553 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemRetainAllocationHandle == 565);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync == 598 && CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz == 599 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync == 600 && CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz == 601 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemPoolTrimTo == 602 && CUPTI_DRIVER_TRACE_CBID_cuMemPoolSetAttribute == 603 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemPoolCreate == 607 && CUPTI_DRIVER_TRACE_CBID_cuMemPoolDestroy == 608 &&
              CUPTI_DRIVER_TRACE_CBID_cuDeviceSetMemPool == 609 &&
              CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync == 611);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuGraphAddMemAllocNode == 638 &&
              CUPTI_DRIVER_TRACE_CBID_cuGraphAddMemFreeNode == 639 &&
              CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags == 643 &&
              CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch == 514 && CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy == 516 &&
              CUPTI_DRIVER_TRACE_CBID_cuGraphDestroy == 517 && CUPTI_DRIVER_TRACE_CBID_cuDeviceGraphMemTrim == 640 &&
              CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2 == 539 &&
              CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture == 497 && CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize == 126);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuCtxCreate_v2 == 235 && CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2 == 322 &&
              CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRetain == 386 &&
              CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease_v2 == 544 &&
              CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2 == 545 && CUPTI_DRIVER_TRACE_CBID_cuInit == 1);

}  // namespace
