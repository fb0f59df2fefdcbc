// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/interposer.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <string_view>

#include "collector/cuda/cupti_backend.h"
#include "collector/cuda/real_driver.h"

using namespace memreel::cuda;              // NOLINT(google-build-using-namespace): what follows are C functions
using namespace memreel::cuda::interposer;  // NOLINT(google-build-using-namespace)

// The driver's symbols. What each does to memory is up to the decoder; here they are only names.
// NOLINTBEGIN(readability-identifier-naming)
#pragma GCC visibility push(default)
extern "C" {

Status cuMemAlloc_v2(DevicePointer* address, std::size_t size) {
  return pass<Call::mem_alloc, params::MemAlloc>("cuMemAlloc_v2", address, size);
}
Status cuMemAllocPitch_v2(DevicePointer* address, std::size_t* pitch, std::size_t width, std::size_t height,
                          unsigned element) {
  return pass<Call::mem_alloc_pitch, params::MemAllocPitch>("cuMemAllocPitch_v2", address, pitch, width, height,
                                                            element);
}
Status cuMemAllocManaged(DevicePointer* address, std::size_t size, unsigned flags) {
  return pass<Call::mem_alloc_managed, params::MemAllocManaged>("cuMemAllocManaged", address, size, flags);
}
Status cuMemFree_v2(DevicePointer address) { return pass<Call::mem_free, params::MemFree>("cuMemFree_v2", address); }
Status cuMemAllocHost_v2(void** address, std::size_t size) {
  return pass<Call::mem_alloc_host, params::MemAllocHost>("cuMemAllocHost_v2", address, size);
}
Status cuMemHostAlloc(void** address, std::size_t size, unsigned flags) {
  return pass<Call::mem_host_alloc, params::MemHostAlloc>("cuMemHostAlloc", address, size, flags);
}
Status cuMemFreeHost(void* address) { return pass<Call::mem_free_host, params::MemFreeHost>("cuMemFreeHost", address); }
Status cuMemHostRegister(void* address, std::size_t size, unsigned flags) {
  return pass<Call::mem_host_register_v1, params::MemHostRegister>("cuMemHostRegister", address, size, flags);
}
Status cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  return pass<Call::mem_host_register, params::MemHostRegister>("cuMemHostRegister_v2", address, size, flags);
}
Status cuMemHostUnregister(void* address) {
  return pass<Call::mem_host_unregister, params::MemHostUnregister>("cuMemHostUnregister", address);
}
Status cuArrayCreate_v2(Object* array, const ArrayDescriptor* descriptor) {
  return pass<Call::array_create, params::ArrayCreate>("cuArrayCreate_v2", array, descriptor);
}
Status cuArray3DCreate_v2(Object* array, const Array3dDescriptor* descriptor) {
  return pass<Call::array_3d_create, params::Array3dCreate>("cuArray3DCreate_v2", array, descriptor);
}
Status cuArrayDestroy(Object array) { return pass<Call::array_destroy, params::ArrayDestroy>("cuArrayDestroy", array); }
Status cuMipmappedArrayCreate(Object* array, const Array3dDescriptor* descriptor, unsigned levels) {
  return pass<Call::mipmapped_array_create, params::MipmappedArrayCreate>("cuMipmappedArrayCreate", array, descriptor,
                                                                          levels);
}
Status cuMipmappedArrayDestroy(Object array) {
  return pass<Call::mipmapped_array_destroy, params::ArrayDestroy>("cuMipmappedArrayDestroy", array);
}
Status cuMemAllocAsync(DevicePointer* address, std::size_t size, Object stream) {
  return pass<Call::mem_alloc_async, params::MemAllocAsync>("cuMemAllocAsync", address, size, stream);
}
Status cuMemAllocAsync_ptsz(DevicePointer* address, std::size_t size, Object stream) {
  return pass<Call::mem_alloc_async_ptsz, params::MemAllocAsync>("cuMemAllocAsync_ptsz", address, size, stream);
}
Status cuMemAllocFromPoolAsync(DevicePointer* address, std::size_t size, Object pool, Object stream) {
  return pass<Call::mem_alloc_from_pool_async, params::MemAllocFromPoolAsync>("cuMemAllocFromPoolAsync", address, size,
                                                                              pool, stream);
}
Status cuMemAllocFromPoolAsync_ptsz(DevicePointer* address, std::size_t size, Object pool, Object stream) {
  return pass<Call::mem_alloc_from_pool_async_ptsz, params::MemAllocFromPoolAsync>("cuMemAllocFromPoolAsync_ptsz",
                                                                                   address, size, pool, stream);
}
Status cuMemFreeAsync(DevicePointer address, Object stream) {
  return pass<Call::mem_free_async, params::MemFreeAsync>("cuMemFreeAsync", address, stream);
}
Status cuMemFreeAsync_ptsz(DevicePointer address, Object stream) {
  return pass<Call::mem_free_async_ptsz, params::MemFreeAsync>("cuMemFreeAsync_ptsz", address, stream);
}
Status cuMemPoolCreate(Object* pool, const PoolProperties* properties) {
  return pass<Call::mem_pool_create, params::MemPoolCreate>("cuMemPoolCreate", pool, properties);
}
Status cuMemPoolDestroy(Object pool) {
  return pass<Call::mem_pool_destroy, params::MemPoolDestroy>("cuMemPoolDestroy", pool);
}
Status cuDeviceSetMemPool(Device device, Object pool) {
  return pass<Call::device_set_mem_pool, params::DeviceSetMemPool>("cuDeviceSetMemPool", device, pool);
}
Status cuDeviceGetMemPool(Object* pool, Device device) {
  return pass<Call::device_get_mem_pool, params::DeviceGetMemPool>("cuDeviceGetMemPool", pool, device);
}
Status cuDeviceGetDefaultMemPool(Object* pool, Device device) {
  return pass<Call::device_get_default_mem_pool, params::DeviceGetMemPool>("cuDeviceGetDefaultMemPool", pool, device);
}
Status cuMemSetMemPool(const Location* location, int type, Object pool) {
  return pass<Call::mem_set_mem_pool, params::MemSetMemPool>("cuMemSetMemPool", location, type, pool);
}
Status cuMemGetMemPool(Object* pool, const Location* location, int type) {
  return pass<Call::mem_get_mem_pool, params::MemGetMemPool>("cuMemGetMemPool", pool, location, type);
}
Status cuMemGetDefaultMemPool(Object* pool, const Location* location, int type) {
  return pass<Call::mem_get_default_mem_pool, params::MemGetMemPool>("cuMemGetDefaultMemPool", pool, location, type);
}
Status cuMemPoolImportFromShareableHandle(Object* pool, void* handle, int type, unsigned long long flags) {
  return pass<Call::mem_pool_import_from_shareable_handle, params::MemPoolImportFromShareableHandle>(
      "cuMemPoolImportFromShareableHandle", pool, handle, type, flags);
}
Status cuMemPoolImportPointer(DevicePointer* address, Object pool, void* data) {
  return pass<Call::mem_pool_import_pointer, params::MemPoolImportPointer>("cuMemPoolImportPointer", address, pool,
                                                                           data);
}
Status cuMemAddressReserve(DevicePointer* address, std::size_t size, std::size_t alignment, DevicePointer wished,
                           unsigned long long flags) {
  return pass<Call::mem_address_reserve, params::MemAddressReserve>("cuMemAddressReserve", address, size, alignment,
                                                                    wished, flags);
}
Status cuMemAddressFree(DevicePointer address, std::size_t size) {
  return pass<Call::mem_address_free, params::MemAddressFree>("cuMemAddressFree", address, size);
}
Status cuMemCreate(AllocationHandle* handle, std::size_t size, const AllocationProperties* properties,
                   unsigned long long flags) {
  return pass<Call::mem_create, params::MemCreate>("cuMemCreate", handle, size, properties, flags);
}
Status cuMemRelease(AllocationHandle handle) {
  return pass<Call::mem_release, params::MemRelease>("cuMemRelease", handle);
}
Status cuMemMap(DevicePointer address, std::size_t size, std::size_t offset, AllocationHandle handle,
                unsigned long long flags) {
  return pass<Call::mem_map, params::MemMap>("cuMemMap", address, size, offset, handle, flags);
}
Status cuMemUnmap(DevicePointer address, std::size_t size) {
  return pass<Call::mem_unmap, params::MemUnmap>("cuMemUnmap", address, size);
}
Status cuMemImportFromShareableHandle(AllocationHandle* handle, void* os_handle, int type) {
  return pass<Call::mem_import_from_shareable_handle, params::MemImportFromShareableHandle>(
      "cuMemImportFromShareableHandle", handle, os_handle, type);
}
Status cuMemRetainAllocationHandle(AllocationHandle* handle, void* address) {
  return pass<Call::mem_retain_allocation_handle, params::MemRetainAllocationHandle>("cuMemRetainAllocationHandle",
                                                                                     handle, address);
}
Status cuExternalMemoryGetMappedBuffer(DevicePointer* address, Object memory, const ExternalBuffer* buffer) {
  return pass<Call::external_memory_get_mapped_buffer, params::ExternalMemoryGetMappedBuffer>(
      "cuExternalMemoryGetMappedBuffer", address, memory, buffer);
}
Status cuIpcOpenMemHandle(DevicePointer* address, params::IpcHandle handle, unsigned flags) {
  return pass<Call::ipc_open_mem_handle, params::IpcOpenMemHandle>("cuIpcOpenMemHandle", address, handle, flags);
}
Status cuIpcOpenMemHandle_v2(DevicePointer* address, params::IpcHandle handle, unsigned flags) {
  return pass<Call::ipc_open_mem_handle_v2, params::IpcOpenMemHandle>("cuIpcOpenMemHandle_v2", address, handle, flags);
}
Status cuIpcCloseMemHandle(DevicePointer address) {
  return pass<Call::ipc_close_mem_handle, params::IpcCloseMemHandle>("cuIpcCloseMemHandle", address);
}
Status cuGraphAddMemAllocNode(Object* node, Object graph, const Object* dependencies, std::size_t count,
                              MemAllocNode* parameters) {
  return pass<Call::graph_add_mem_alloc_node, params::GraphAddMemAllocNode>("cuGraphAddMemAllocNode", node, graph,
                                                                            dependencies, count, parameters);
}
Status cuGraphAddMemFreeNode(Object* node, Object graph, const Object* dependencies, std::size_t count,
                             DevicePointer address) {
  return pass<Call::graph_add_mem_free_node, params::GraphAddMemFreeNode>("cuGraphAddMemFreeNode", node, graph,
                                                                          dependencies, count, address);
}
Status cuGraphAddNode(Object* node, Object graph, const Object* dependencies, std::size_t count,
                      GraphNode* parameters) {
  return pass<Call::graph_add_node, params::GraphAddNode>("cuGraphAddNode", node, graph, dependencies, count,
                                                          parameters);
}
Status cuGraphAddNode_v2(Object* node, Object graph, const Object* dependencies, const void* edges, std::size_t count,
                         GraphNode* parameters) {
  return pass<Call::graph_add_node_v2, params::GraphAddNodeV2>("cuGraphAddNode_v2", node, graph, dependencies, edges,
                                                               count, parameters);
}
Status cuGraphAddNode_v3(Object* node, Object graph, const Object* dependencies, const void* edges, std::size_t count,
                         GraphNode* parameters) {
  return pass<Call::graph_add_node_v3, params::GraphAddNodeV2>("cuGraphAddNode_v3", node, graph, dependencies, edges,
                                                               count, parameters);
}
Status cuGreenCtxCreate(Object* context, Object resources, Device device, unsigned flags) {
  return pass<Call::green_ctx_create, params::GreenCtxCreate>("cuGreenCtxCreate", context, resources, device, flags);
}
Status cuCtxFromGreenCtx(Object* context, Object green) {
  return pass<Call::ctx_from_green_ctx, params::CtxFromGreenCtx>("cuCtxFromGreenCtx", context, green);
}
Status cuCtxCreate_v2(Object* context, unsigned flags, Device device) {
  return pass<Call::ctx_create_v2, params::CtxCreateV2>("cuCtxCreate_v2", context, flags, device);
}
Status cuCtxCreate_v3(Object* context, const void* affinities, int count, unsigned flags, Device device) {
  return pass<Call::ctx_create_v3, params::CtxCreateV3>("cuCtxCreate_v3", context, affinities, count, flags, device);
}
Status cuCtxCreate_v4(Object* context, const void* parameters, unsigned flags, Device device) {
  return pass<Call::ctx_create_v4, params::CtxCreateV4>("cuCtxCreate_v4", context, parameters, flags, device);
}
Status cuCtxDestroy(Object context) { return pass<Call::ctx_destroy, params::CtxDestroy>("cuCtxDestroy", context); }
Status cuCtxDestroy_v2(Object context) {
  return pass<Call::ctx_destroy_v2, params::CtxDestroy>("cuCtxDestroy_v2", context);
}
Status cuDevicePrimaryCtxRetain(Object* context, Device device) {
  return pass<Call::primary_ctx_retain, params::PrimaryCtxRetain>("cuDevicePrimaryCtxRetain", context, device);
}
Status cuDevicePrimaryCtxRelease(Device device) {
  return pass<Call::primary_ctx_release_v1, params::PrimaryCtxRelease>("cuDevicePrimaryCtxRelease", device);
}
Status cuDevicePrimaryCtxRelease_v2(Device device) {
  return pass<Call::primary_ctx_release, params::PrimaryCtxRelease>("cuDevicePrimaryCtxRelease_v2", device);
}
Status cuDevicePrimaryCtxReset(Device device) {
  return pass<Call::primary_ctx_reset_v1, params::PrimaryCtxRelease>("cuDevicePrimaryCtxReset", device);
}
Status cuDevicePrimaryCtxReset_v2(Device device) {
  return pass<Call::primary_ctx_reset, params::PrimaryCtxRelease>("cuDevicePrimaryCtxReset_v2", device);
}

// Declared before they are defined, for the table of all symbols.
Status cuInit(unsigned flags);
Status cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags);
Status cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* found);
cupti::Result cuptiSubscribe(cupti::Subscriber* subscriber, cupti::Callback callback, void* user);
cupti::Result cuptiSubscribe_v2(cupti::Subscriber* subscriber, cupti::Callback callback, void* user,
                                cupti::SubscriberParams* params);
}

namespace memreel::cuda::interposer {
namespace {

/// A driver symbol that we also define.
struct Symbol {
  std::string_view name;
  int since;  // the CUDA version since which cuGetProcAddress returns it for its name without "_v2"
  void* ours;
  std::atomic<void*>* real;  // null: not called through pass()
};

template <Call call, class Function>
Symbol entry(std::string_view name, int since, Function* ours) {
  return {name, since, reinterpret_cast<void*>(ours), &real_of<call>};
}

/// All of our symbols. Versions: cudaTypedefs.h of the toolkit.
const auto& symbols() {
  static const std::array all{
      entry<Call::mem_alloc>("cuMemAlloc_v2", 3020, cuMemAlloc_v2),
      entry<Call::mem_alloc_pitch>("cuMemAllocPitch_v2", 3020, cuMemAllocPitch_v2),
      entry<Call::mem_alloc_managed>("cuMemAllocManaged", 6000, cuMemAllocManaged),
      entry<Call::mem_free>("cuMemFree_v2", 3020, cuMemFree_v2),
      entry<Call::mem_alloc_host>("cuMemAllocHost_v2", 3020, cuMemAllocHost_v2),
      entry<Call::mem_host_alloc>("cuMemHostAlloc", 2020, cuMemHostAlloc),
      entry<Call::mem_free_host>("cuMemFreeHost", 2000, cuMemFreeHost),
      entry<Call::mem_host_register_v1>("cuMemHostRegister", 4000, cuMemHostRegister),
      entry<Call::mem_host_register>("cuMemHostRegister_v2", 6050, cuMemHostRegister_v2),
      entry<Call::mem_host_unregister>("cuMemHostUnregister", 4000, cuMemHostUnregister),
      entry<Call::array_create>("cuArrayCreate_v2", 3020, cuArrayCreate_v2),
      entry<Call::array_3d_create>("cuArray3DCreate_v2", 3020, cuArray3DCreate_v2),
      entry<Call::array_destroy>("cuArrayDestroy", 2000, cuArrayDestroy),
      entry<Call::mipmapped_array_create>("cuMipmappedArrayCreate", 5000, cuMipmappedArrayCreate),
      entry<Call::mipmapped_array_destroy>("cuMipmappedArrayDestroy", 5000, cuMipmappedArrayDestroy),
      entry<Call::mem_alloc_async>("cuMemAllocAsync", 11020, cuMemAllocAsync),
      entry<Call::mem_alloc_async_ptsz>("cuMemAllocAsync_ptsz", 11020, cuMemAllocAsync_ptsz),
      entry<Call::mem_alloc_from_pool_async>("cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync),
      entry<Call::mem_alloc_from_pool_async_ptsz>("cuMemAllocFromPoolAsync_ptsz", 11020, cuMemAllocFromPoolAsync_ptsz),
      entry<Call::mem_free_async>("cuMemFreeAsync", 11020, cuMemFreeAsync),
      entry<Call::mem_free_async_ptsz>("cuMemFreeAsync_ptsz", 11020, cuMemFreeAsync_ptsz),
      entry<Call::mem_pool_create>("cuMemPoolCreate", 11020, cuMemPoolCreate),
      entry<Call::mem_pool_destroy>("cuMemPoolDestroy", 11020, cuMemPoolDestroy),
      entry<Call::device_set_mem_pool>("cuDeviceSetMemPool", 11020, cuDeviceSetMemPool),
      entry<Call::device_get_mem_pool>("cuDeviceGetMemPool", 11020, cuDeviceGetMemPool),
      entry<Call::device_get_default_mem_pool>("cuDeviceGetDefaultMemPool", 11020, cuDeviceGetDefaultMemPool),
      entry<Call::mem_set_mem_pool>("cuMemSetMemPool", 13000, cuMemSetMemPool),
      entry<Call::mem_get_mem_pool>("cuMemGetMemPool", 13000, cuMemGetMemPool),
      entry<Call::mem_get_default_mem_pool>("cuMemGetDefaultMemPool", 13000, cuMemGetDefaultMemPool),
      entry<Call::mem_pool_import_from_shareable_handle>("cuMemPoolImportFromShareableHandle", 11020,
                                                         cuMemPoolImportFromShareableHandle),
      entry<Call::mem_pool_import_pointer>("cuMemPoolImportPointer", 11020, cuMemPoolImportPointer),
      entry<Call::mem_address_reserve>("cuMemAddressReserve", 10020, cuMemAddressReserve),
      entry<Call::mem_address_free>("cuMemAddressFree", 10020, cuMemAddressFree),
      entry<Call::mem_create>("cuMemCreate", 10020, cuMemCreate),
      entry<Call::mem_release>("cuMemRelease", 10020, cuMemRelease),
      entry<Call::mem_map>("cuMemMap", 10020, cuMemMap),
      entry<Call::mem_unmap>("cuMemUnmap", 10020, cuMemUnmap),
      entry<Call::mem_import_from_shareable_handle>("cuMemImportFromShareableHandle", 10020,
                                                    cuMemImportFromShareableHandle),
      entry<Call::mem_retain_allocation_handle>("cuMemRetainAllocationHandle", 11000, cuMemRetainAllocationHandle),
      entry<Call::external_memory_get_mapped_buffer>("cuExternalMemoryGetMappedBuffer", 10000,
                                                     cuExternalMemoryGetMappedBuffer),
      entry<Call::ipc_open_mem_handle>("cuIpcOpenMemHandle", 4010, cuIpcOpenMemHandle),
      entry<Call::ipc_open_mem_handle_v2>("cuIpcOpenMemHandle_v2", 11000, cuIpcOpenMemHandle_v2),
      entry<Call::ipc_close_mem_handle>("cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle),
      entry<Call::graph_add_mem_alloc_node>("cuGraphAddMemAllocNode", 11040, cuGraphAddMemAllocNode),
      entry<Call::graph_add_mem_free_node>("cuGraphAddMemFreeNode", 11040, cuGraphAddMemFreeNode),
      entry<Call::graph_add_node>("cuGraphAddNode", 12020, cuGraphAddNode),
      entry<Call::graph_add_node_v2>("cuGraphAddNode_v2", 12030, cuGraphAddNode_v2),
      entry<Call::graph_add_node_v3>("cuGraphAddNode_v3", 13040, cuGraphAddNode_v3),
      entry<Call::green_ctx_create>("cuGreenCtxCreate", 12040, cuGreenCtxCreate),
      entry<Call::ctx_from_green_ctx>("cuCtxFromGreenCtx", 12040, cuCtxFromGreenCtx),
      entry<Call::ctx_create_v2>("cuCtxCreate_v2", 3020, cuCtxCreate_v2),
      entry<Call::ctx_create_v3>("cuCtxCreate_v3", 11040, cuCtxCreate_v3),
      entry<Call::ctx_create_v4>("cuCtxCreate_v4", 12050, cuCtxCreate_v4),
      entry<Call::ctx_destroy>("cuCtxDestroy", 2000, cuCtxDestroy),
      entry<Call::ctx_destroy_v2>("cuCtxDestroy_v2", 4000, cuCtxDestroy_v2),
      entry<Call::primary_ctx_retain>("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
      entry<Call::primary_ctx_release_v1>("cuDevicePrimaryCtxRelease", 7000, cuDevicePrimaryCtxRelease),
      entry<Call::primary_ctx_release>("cuDevicePrimaryCtxRelease_v2", 11000, cuDevicePrimaryCtxRelease_v2),
      entry<Call::primary_ctx_reset_v1>("cuDevicePrimaryCtxReset", 7000, cuDevicePrimaryCtxReset),
      entry<Call::primary_ctx_reset>("cuDevicePrimaryCtxReset_v2", 11000, cuDevicePrimaryCtxReset_v2),
      Symbol{"cuptiSubscribe", 0, reinterpret_cast<void*>(&cuptiSubscribe), nullptr},
      Symbol{"cuptiSubscribe_v2", 0, reinterpret_cast<void*>(&cuptiSubscribe_v2), nullptr},
      Symbol{"cuInit", 2000, reinterpret_cast<void*>(&cuInit), nullptr},
      Symbol{"cuGetProcAddress", 11030, reinterpret_cast<void*>(&cuGetProcAddress), nullptr},
      Symbol{"cuGetProcAddress_v2", 12000, reinterpret_cast<void*>(&cuGetProcAddress_v2), nullptr},
  };
  return all;
}

/// What cuGetProcAddress found for the name without its suffix, or our function in its place.
void* ours_for(std::string_view base, int version, bool own_default_stream, void* found) {
  const Symbol* best = nullptr;
  for (const Symbol& symbol : symbols()) {
    std::string_view rest = symbol.name;
    if (!rest.starts_with(base)) continue;
    rest.remove_prefix(base.size());
    const bool ptsz = rest.ends_with("_ptsz");
    if (ptsz) rest.remove_suffix(5);
    const bool is_version = rest.empty() || (rest.size() == 3 && rest.starts_with("_v"));
    if (!is_version || symbol.since > version || (ptsz && !own_default_stream)) continue;
    if (best == nullptr || symbol.since > best->since || ptsz) best = &symbol;
  }
  if (best == nullptr) return found;
  // A driver, or a shim in front of it, that looks up its own functions by name finds ours: calling on from there would
  // never end.
  if (best->real != nullptr && found != best->ours) {
    void* expected = nullptr;
    best->real->compare_exchange_strong(expected, found);
  }
  return best->ours;
}

constexpr std::uint64_t per_thread_default_stream = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

void replace(const char* symbol, void** function, int version, std::uint64_t flags) {
  if (symbol == nullptr || function == nullptr || *function == nullptr || !preloaded()) return;
  *function = ours_for(symbol, version, (flags & per_thread_default_stream) != 0, *function);
}

}  // namespace

bool preloaded() {
  // Looked up as the program would: RTLD_DEFAULT would always find this library's own symbol.
  static const bool first =
      RealDriver::dlsym(::dlopen(nullptr, RTLD_LAZY), "cuMemAlloc_v2") == reinterpret_cast<void*>(&cuMemAlloc_v2);
  return first;
}

void begin(Watch& watching) { watch.store(&watching, std::memory_order_release); }
void end() { watch.store(nullptr, std::memory_order_release); }

/// Ours if `handle` has a symbol with this name; null if it is not ours, or there is none.
extern "C" [[gnu::visibility("hidden")]] void* memreel_our_symbol(void* handle, const char* name) {
  if (handle == RTLD_NEXT || name == nullptr || name[0] != 'c' || name[1] != 'u') return nullptr;
  for (const Symbol& symbol : symbols()) {
    if (symbol.name != name) continue;
    void* const real = RealDriver::dlsym(handle, name);
    if (real == nullptr || real == symbol.ours) return real;
    void* expected = nullptr;
    if (symbol.real != nullptr) symbol.real->compare_exchange_strong(expected, real);
    return symbol.ours;
  }
  return nullptr;
}

}  // namespace memreel::cuda::interposer

extern "C" {

Status cuInit(unsigned flags) {
  const auto real = reinterpret_cast<Status (*)(unsigned)>(RealDriver::find("cuInit"));
  if (real == nullptr) return not_found;
  const Status status = real(flags);
  if (status == success && preloaded()) driver_initialized();
  return status;
}

Status cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  using Function = Status (*)(const char*, void**, int, std::uint64_t);
  const auto real = reinterpret_cast<Function>(RealDriver::find("cuGetProcAddress"));
  if (real == nullptr) return not_found;
  const Status status = real(symbol, function, version, flags);
  if (status == success) replace(symbol, function, version, flags);
  return status;
}

Status cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* found) {
  using Function = Status (*)(const char*, void**, int, std::uint64_t, int*);
  const auto real = reinterpret_cast<Function>(RealDriver::find("cuGetProcAddress_v2"));
  if (real == nullptr) return not_found;
  const Status status = real(symbol, function, version, flags, found);
  if (status == success) replace(symbol, function, version, flags);
  return status;
}
}
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
