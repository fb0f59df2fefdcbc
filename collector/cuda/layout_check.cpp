// SPDX-License-Identifier: Apache-2.0
// Compiled if a CUDA toolkit is present: checks that our copies of its numbers and structures match. Our headers come
// first: cuda.h has macros with the names of some symbols.
#include "collector/cuda/calls.h"
#include "collector/cuda/cupti_backend.h"
// clang-format off
#include <cuda.h>
#include <cupti.h>
// clang-format on

#include <array>
#include <tuple>

namespace memreel::cuda {
namespace {

template <class... Members>
constexpr std::array<std::size_t, sizeof...(Members)> sizes(const std::tuple<Members...>*) {
  return {sizeof(Members)...};
}

/// Members of equal sizes in equal order are at equal places.
template <Call call, int number, class Theirs, int count>
consteval bool matches() {
  using Ours = Parameters<call>;
  static_assert(static_cast<int>(call) == number);
  static_assert(sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs));
  constexpr const Arguments<call>* ours = nullptr;
  constexpr const decltype(member_types<count>(std::declval<Theirs&>()))* theirs = nullptr;
  return sizes(ours) == sizes(theirs);
}

#define CALL(symbol, number, since, parameters, count)                                                          \
  static_assert(matches<static_cast<Call>(number), CUPTI_DRIVER_TRACE_CBID_##symbol, symbol##_params, count>(), \
                #symbol);
#include "collector/cuda/calls.inc"
static_assert(static_cast<int>(Call::cuCtxDetach) == CUPTI_DRIVER_TRACE_CBID_cuCtxDetach);
static_assert(sizeof(params::CtxDestroy) == sizeof(cuCtxDetach_params));
#if CUDA_VERSION < 13050
static_assert(static_cast<int>(Call::cuMemHostAlloc_v2) == CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2);
#endif

static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps));
static_assert(offsetof(PoolProperties, location) == offsetof(CUmemPoolProps, location));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(sizeof(ArrayDescriptor) == sizeof(CUDA_ARRAY_DESCRIPTOR));
static_assert(sizeof(Array3dDescriptor) == sizeof(CUDA_ARRAY3D_DESCRIPTOR));
#if CUDA_VERSION >= 12030
static_assert(offsetof(GraphNode, alloc) == offsetof(CUgraphNodeParams, alloc));
#endif
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
