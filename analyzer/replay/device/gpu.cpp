// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/device/gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>

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

template <class Call>
bool Gpu::metered(DriverCall kind, Bytes size, std::string_view what, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = call();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Tally& tally = tallies_[static_cast<std::size_t>(kind)];
  ++tally.calls;
  tally.bytes += size;
  tally.seconds += took.count();
  return granted(status, what);
}

bool Gpu::granted(Status status, std::string_view what) { return status != out_of_memory && succeeded(status, what); }

bool Gpu::succeeded(Status status, std::string_view what) {
  if (status == success) return true;
  if (!error_)
    error_ = Error{.what = std::string(what) + " failed: " + driver_.text_of(status),
                   .where = "GPU " + std::to_string(number_)};
  return false;
}

Result<std::unique_ptr<Gpu>> Gpu::open(Driver driver, int number) {
  std::unique_ptr<Gpu> gpu(new Gpu(std::move(driver)));
  const Driver& d = gpu->driver_;
  const auto failed = [&](Status status, const char* what) {
    return Error{.what = std::string(what) + ": " + d.text_of(status),
                 .where = d.library(),
                 .remedy = "nvidia-smi shows whether the driver sees a GPU"};
  };
  if (const Status status = d->init(0); status != success) return failed(status, "the GPU driver can't be used");
  int count = 0;
  if (const Status status = d->device_count(&count); status != success || count == 0)
    return failed(status, "the driver sees no GPU");
  if (number < 0 || number >= count)
    return Error{.what = "no GPU " + std::to_string(number),
                 .remedy = "the driver sees " + std::to_string(count) + ", counted from 0"};
  gpu->number_ = number;
  std::array<char, 256> name{};
  int version = 0;
  Context context = nullptr;
  Status status = d->device(&gpu->device_, number);
  if (status == success) status = d->device_name(name.data(), static_cast<int>(name.size() - 1), gpu->device_);
  if (status == success) status = d->driver_version(&version);
  if (status == success) {
    status = d->retain_context(&context, gpu->device_);
    gpu->retained_ = status == success;
  }
  if (status == success) status = d->set_context(context);
  if (status != success) return failed(status, "the GPU can't be used");
  gpu->name_ = name.data();
  gpu->cuda_version_ = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  return gpu;
}

Gpu::~Gpu() {
  if (!retained_) return;
  driver_->set_context(nullptr);
  driver_->release_context(device_);
}

std::optional<DevicePointer> Gpu::malloc(Bytes size) {
  DevicePointer pointer = 0;
  if (error_ || !metered(DriverCall::malloc, size, "cuMemAlloc", [&] { return driver_->malloc(&pointer, size.count); }))
    return std::nullopt;
  return pointer;
}

void Gpu::free(DevicePointer pointer, Bytes size) {
  metered(DriverCall::free, size, "cuMemFree", [&] { return driver_->free(pointer); });
}

std::optional<DevicePointer> Gpu::malloc_async(Bytes size, Pool pool, Stream stream) {
  DevicePointer pointer = 0;
  if (error_ || !metered(DriverCall::malloc_async, size, "cuMemAllocFromPoolAsync",
                         [&] { return driver_->malloc_async(&pointer, size.count, pool, stream); }))
    return std::nullopt;
  return pointer;
}

void Gpu::free_async(DevicePointer pointer, Bytes size, Stream stream) {
  metered(DriverCall::free_async, size, "cuMemFreeAsync", [&] { return driver_->free_async(pointer, stream); });
}

bool Gpu::map_new(DevicePointer address, Bytes size) {
  return !error_ && metered(DriverCall::map, size, "mapping memory", [&] {
    AllocationProperties properties;
    properties.location.id = device_;
    AllocationHandle handle = 0;
    if (const Status status = driver_->create(&handle, size.count, &properties, 0); status != success) return status;
    Status status = driver_->map(address, size.count, 0, handle, 0);
    // From here on the mapping keeps the memory alive.
    if (const Status released = driver_->release(handle); status == success) status = released;
    if (status != success) return status;
    const Access access{.location = properties.location};
    status = driver_->set_access(address, size.count, &access, 1);
    if (status != success) driver_->unmap(address, size.count);
    return status;
  });
}

void Gpu::unmap(DevicePointer address, Bytes size) {
  metered(DriverCall::unmap, size, "cuMemUnmap", [&] { return driver_->unmap(address, size.count); });
}

std::optional<DevicePointer> Gpu::reserve_addresses(Bytes size) {
  DevicePointer address = 0;
  if (error_ || !granted(driver_->reserve_addresses(&address, size.count, 0, 0, 0), "cuMemAddressReserve"))
    return std::nullopt;
  return address;
}

void Gpu::free_addresses(DevicePointer address, Bytes size) {
  succeeded(driver_->free_addresses(address, size.count), "cuMemAddressFree");
}

void Gpu::synchronize() {
  if (!error_) metered(DriverCall::sync, {}, "cuCtxSynchronize", [&] { return driver_->synchronize(); });
}

void Gpu::synchronize_stream(Stream stream) {
  if (!error_)
    metered(DriverCall::sync, {}, "cuStreamSynchronize", [&] { return driver_->synchronize_stream(stream); });
}

void Gpu::trim(Pool pool) {
  if (!error_) metered(DriverCall::unmap, {}, "cuMemPoolTrimTo", [&] { return driver_->trim_pool(pool, 0); });
}

Bytes Gpu::free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (!error_) succeeded(driver_->memory_info(&free, &total), "cuMemGetInfo");
  return Bytes{free};
}

Pool Gpu::create_pool(std::optional<Bytes> most, Bytes release_threshold) {
  PoolProperties properties;
  properties.location.id = device_;
  if (most) properties.max_size = most->count;
  Pool pool = nullptr;
  if (error_ || !succeeded(driver_->create_pool(&pool, &properties), "cuMemPoolCreate")) return nullptr;
  succeeded(driver_->set_pool_attribute(pool, PoolAttribute::release_threshold, &release_threshold.count),
            "setting the release threshold");
  return pool;
}

void Gpu::destroy_pool(Pool pool) { succeeded(driver_->destroy_pool(pool), "cuMemPoolDestroy"); }

Bytes Gpu::pool_bytes(Pool pool, PoolAttribute attribute) {
  std::uint64_t value = 0;
  if (!error_) succeeded(driver_->get_pool_attribute(pool, attribute, &value), "cuMemPoolGetAttribute");
  return Bytes{value};
}

void Gpu::set_pool_flag(Pool pool, PoolAttribute attribute, bool value) {
  int flag = value ? 1 : 0;
  if (!error_) succeeded(driver_->set_pool_attribute(pool, attribute, &flag), "cuMemPoolSetAttribute");
}

Stream Gpu::create_stream() {
  Stream stream = nullptr;
  if (!error_) succeeded(driver_->create_stream(&stream, non_blocking_stream), "cuStreamCreate");
  return stream;
}

void Gpu::destroy_stream(Stream stream) { succeeded(driver_->destroy_stream(stream), "cuStreamDestroy"); }

void Gpu::order(Stream awaited, Stream waiting) {
  if (error_) return;
  Event event = nullptr;
  if (!succeeded(driver_->create_event(&event, event_without_timing), "cuEventCreate")) return;
  if (succeeded(driver_->record_event(event, awaited), "cuEventRecord"))
    succeeded(driver_->stream_waits(waiting, event, 0), "cuStreamWaitEvent");
  succeeded(driver_->destroy_event(event), "cuEventDestroy");  // the driver keeps it until it has happened
}

}  // namespace memreel::gpu
