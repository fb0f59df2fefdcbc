// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/real_driver.h"

#include <dlfcn.h>

#include <atomic>

namespace memreel::cuda {
namespace {

using Dlsym = void* (*)(void*, const char*);

/// Looked up by version: an unversioned lookup would find ours. Since 2.34 it is in libc; before, in libdl.
Dlsym find_dlsym() {
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
    if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Dlsym>(found);
  // This library is the last in symbol search order.
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
    if (void* const found = ::dlvsym(RTLD_DEFAULT, "dlsym", version)) return reinterpret_cast<Dlsym>(found);
  return nullptr;
}

template <class Function>
void look_up(const char* name, Function& function) {
  function = reinterpret_cast<Function>(RealDriver::find(name));
}

}  // namespace

extern "C" {
/// The target of our dlsym (interposed_dlsym.cpp).
[[gnu::visibility("hidden")]] void* memreel_next_dlsym() {
  static const Dlsym next = find_dlsym();
  return reinterpret_cast<void*>(next);
}
}

void* RealDriver::dlsym(void* handle, const char* name) {
  const auto next = reinterpret_cast<Dlsym>(memreel_next_dlsym());
  return next != nullptr ? next(handle, name) : nullptr;
}

void* RealDriver::find(const char* name) {
  static std::atomic<void*> driver = nullptr;
  void* library = driver.load(std::memory_order_acquire);
  if (library == nullptr) {
    library = ::dlopen("libcuda.so.1", RTLD_LAZY);
    if (library == nullptr) return nullptr;
    driver.store(library, std::memory_order_release);
  }
  return dlsym(library, name);
}

const RealDriver& RealDriver::get() {
  static const RealDriver driver;
  return driver;
}

RealDriver::RealDriver() {
  look_up("cuCtxGetCurrent", current_context_);
  look_up("cuCtxGetDevice", current_device_);
  look_up("cuStreamIsCapturing", is_capturing_);
  look_up("cuStreamGetDevice", device_of_stream_);
  look_up("cuStreamGetCtx", context_of_stream_);
  look_up("cuMemGetAddressRange_v2", address_range_);
  look_up("cuPointerGetAttribute", pointer_attribute_);
  look_up("cuMemGetAllocationPropertiesFromHandle", properties_);
  look_up("cuDevicePrimaryCtxGetState", primary_state_);
  look_up("cuDevicePrimaryCtxRetain", retain_primary_);
  look_up("cuDevicePrimaryCtxRelease_v2", release_primary_);
}

Status RealDriver::current_context(Object* context) const {
  return current_context_ != nullptr ? current_context_(context) : not_found;
}

Status RealDriver::current_device(Device* device) const {
  return current_device_ != nullptr ? current_device_(device) : not_found;
}

bool RealDriver::is_capturing(Object stream, bool own_default) const {
  auto* const own = reinterpret_cast<Object>(std::uintptr_t{2});  // NOLINT: CU_STREAM_PER_THREAD is a number
  if (stream == nullptr && own_default) stream = own;
  if (stream == nullptr || is_capturing_ == nullptr) return false;  // the legacy default stream can't be captured
  int state = 0;
  return is_capturing_(stream, &state) == success && state == 1;
}

std::optional<Device> RealDriver::device_of_stream(Object stream) const {
  Device device = 0;
  if (device_of_stream_ == nullptr || device_of_stream_(stream, &device) != success) return std::nullopt;
  return device;
}

const void* RealDriver::context_of_stream(Object stream) const {
  Object context = nullptr;
  if (context_of_stream_ == nullptr || context_of_stream_(stream, &context) != success) return nullptr;
  return context;
}

std::optional<RealDriver::Extent> RealDriver::extent_of(DevicePointer address) const {
  constexpr int device_ordinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
  if (address_range_ == nullptr || pointer_attribute_ == nullptr) return std::nullopt;
  DevicePointer base = 0;
  std::size_t size = 0;
  Device device = 0;
  if (address_range_(&base, &size, address) != success) return std::nullopt;
  if (pointer_attribute_(&device, device_ordinal, address) != success) return std::nullopt;
  return Extent{.size = size - (address - base), .device = device};
}

std::optional<Device> RealDriver::device_of(AllocationHandle handle) const {
  AllocationProperties properties;
  if (properties_ == nullptr || properties_(&properties, handle) != success) return std::nullopt;
  const std::int16_t device = properties.location.device_or(host_device);
  if (device == host_device) return std::nullopt;
  return device;
}

const void* RealDriver::active_primary(Device device) const {
  if (primary_state_ == nullptr || retain_primary_ == nullptr || release_primary_ == nullptr) return nullptr;
  unsigned flags = 0;
  int active = 0;
  Object context = nullptr;
  // It is alive, so retain and release only count.
  if (primary_state_(device, &flags, &active) != success || active == 0) return nullptr;
  if (retain_primary_(&context, device) != success) return nullptr;
  release_primary_(device);
  return context;
}

}  // namespace memreel::cuda
