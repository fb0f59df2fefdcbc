#include "analyzer/device/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

namespace memreel::gpu {
namespace {

constexpr const char* default_library = "libcuda.so.1";

std::string library_to_load(std::string asked) {
  if (!asked.empty()) return asked;
  const char* named = std::getenv("MEMREEL_LIBCUDA");  // NOLINT(concurrency-mt-unsafe): never set here
  return named != nullptr && *named != '\0' ? named : default_library;
}

/// The first symbol that the library lacks, or null.
const char* find_all(void* library, EntryPoints& entry) {
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr && missing == nullptr) missing = symbol;
  };
  find(entry.init, "cuInit");
  find(entry.driver_version, "cuDriverGetVersion");
  find(entry.error_name, "cuGetErrorName");
  find(entry.device_count, "cuDeviceGetCount");
  find(entry.device, "cuDeviceGet");
  find(entry.device_name, "cuDeviceGetName");
  find(entry.retain_context, "cuDevicePrimaryCtxRetain");
  find(entry.release_context, "cuDevicePrimaryCtxRelease_v2");
  find(entry.set_context, "cuCtxSetCurrent");
  find(entry.synchronize, "cuCtxSynchronize");
  find(entry.memory_info, "cuMemGetInfo_v2");
  find(entry.malloc, "cuMemAlloc_v2");
  find(entry.free, "cuMemFree_v2");
  find(entry.create_stream, "cuStreamCreate");
  find(entry.destroy_stream, "cuStreamDestroy_v2");
  find(entry.synchronize_stream, "cuStreamSynchronize");
  find(entry.stream_waits, "cuStreamWaitEvent");
  find(entry.launch_host_function, "cuLaunchHostFunc");
  find(entry.create_event, "cuEventCreate");
  find(entry.record_event, "cuEventRecord");
  find(entry.destroy_event, "cuEventDestroy_v2");
  find(entry.create_pool, "cuMemPoolCreate");
  find(entry.destroy_pool, "cuMemPoolDestroy");
  find(entry.set_pool_attribute, "cuMemPoolSetAttribute");
  find(entry.get_pool_attribute, "cuMemPoolGetAttribute");
  find(entry.trim_pool, "cuMemPoolTrimTo");
  find(entry.malloc_async, "cuMemAllocFromPoolAsync");
  find(entry.free_async, "cuMemFreeAsync");
  find(entry.reserve_addresses, "cuMemAddressReserve");
  find(entry.free_addresses, "cuMemAddressFree");
  find(entry.create, "cuMemCreate");
  find(entry.release, "cuMemRelease");
  find(entry.map, "cuMemMap");
  find(entry.unmap, "cuMemUnmap");
  find(entry.set_access, "cuMemSetAccess");
  return missing;
}

}  // namespace

Result<Driver> Driver::load(std::string library) {
  Driver driver;
  driver.library_ = library_to_load(std::move(library));
  void* const handle = dlopen(driver.library_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return Error{.what = "no GPU driver here: can't load " + driver.library_,
                 .remedy = "run on a machine with an NVIDIA driver, or name its library in MEMREEL_LIBCUDA"};
  if (const char* missing = find_all(handle, driver.entry_))
    return Error{.what = "lacks " + std::string(missing),
                 .where = driver.library_,
                 .remedy = "install a driver for CUDA 11.3 or newer"};
  return driver;
}

std::string Driver::text_of(Status status) const {
  const char* name = nullptr;
  if (entry_.error_name(status, &name) != success || name == nullptr) name = "unknown error";
  return std::string(name) + " (" + std::to_string(status) + ")";
}

}  // namespace memreel::gpu
