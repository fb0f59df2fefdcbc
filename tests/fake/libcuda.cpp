// SPDX-License-Identifier: Apache-2.0
// The fake libcuda.so.1: initialization, devices, contexts, and symbol lookup.
//
// Read once, by cuInit:
//   FAKE_CUDA_MEMORY    bytes of each GPU [8 GiB]
//   FAKE_CUDA_GPUS      number of GPUs [1]
//   FAKE_CUDA_VERSION   the CUDA version that the driver supports [13000]; read at any time
//   FAKE_CUDA_FAIL      NAME:N[,NAME:N...]: the N-th call to that function, from 1, fails with out of memory
//   FAKE_CUDA_DELAY_US  duration of every call to a memory function, between its callbacks [0]
//   FAKE_CUDA_EVENT_DELAY  an event completes after at most this many further event calls, drawn anew each time [0]
//   FAKE_CUDA_ARENAS    1: cuMemAlloc and cuMemFree use per-thread arenas without a lock, for overhead benchmarks
// Like the real driver, cuInit loads the library named by CUDA_INJECTION64_PATH and calls its InitializeInjection.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tests/fake/call.h"
#include "tests/fake/driver.h"

namespace fake {

std::atomic<Listener*> fake_cuda_listener{nullptr};  // C linkage: see call.h

namespace {

struct Failure {
  std::atomic<std::uint64_t> calls{0};
  std::uint64_t failing = 0;
};

struct Settings {
  std::uint64_t memory = 8ULL << 30U, gpus = 1, delay_us = 0, event_delay = 0;
  std::map<std::string, Failure, std::less<>> failures;
};

std::atomic<bool> ready{false};
std::atomic<bool> forked{false};
Settings& settings = *new Settings;  // NOLINT: written by cuInit only; outlives every destructor of the program
thread_local Context* current = nullptr;

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void read_failures() {
  const char* text = std::getenv("FAKE_CUDA_FAIL");  // NOLINT(concurrency-mt-unsafe)
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    const std::size_t colon = entry.find(':');
    if (colon != std::string_view::npos)
      settings.failures[std::string(entry.substr(0, colon))].failing =
          std::strtoull(std::string(entry.substr(colon + 1)).c_str(), nullptr, 10);
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
}

void start() {
  settings.memory = number_in("FAKE_CUDA_MEMORY", settings.memory);
  settings.gpus = number_in("FAKE_CUDA_GPUS", settings.gpus);
  settings.delay_us = number_in("FAKE_CUDA_DELAY_US", 0);
  settings.event_delay = number_in("FAKE_CUDA_EVENT_DELAY", 0);
  read_failures();
  for (int i = 0; i < static_cast<int>(settings.gpus); ++i) {
    driver().gpus.push_back(std::make_unique<Gpu>(i, settings.memory));
    driver().primary.push_back(nullptr);
    driver().default_pools.push_back(std::make_unique<Pool>());
    driver().default_pools.back()->gpu = driver().gpus.back().get();
    driver().current_pools.push_back(driver().default_pools.back().get());
  }
  constexpr int beyond_gpus = 16;
  driver().host_memory = std::make_unique<Gpu>(beyond_gpus, 1ULL << 40U);
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

void inject() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");  // NOLINT(concurrency-mt-unsafe)
  if (path == nullptr || *path == '\0') return;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

bool valid(DeviceNumber device) { return device >= 0 && device < static_cast<int>(settings.gpus); }

Context* make_context(DeviceNumber device, bool primary) {
  auto* const context = new Context{.device = device, .number = ++driver().context_count, .primary = primary};
  driver().contexts.insert(context);
  return context;
}

/// Destroying a context frees everything it owns, except memory of pools and cuMemCreate.
void release_memory_of(Context& context) {
  for (const DevicePointer pointer : context.linear) {
    driver().gpus[static_cast<std::size_t>(context.device)]->free(pointer);
    driver().context_of.erase(pointer);
  }
  context.linear.clear();
  for (Array* array : context.arrays) {
    array->gpu->give_back(array->size);
    delete array;
  }
  context.arrays.clear();
}

Context* retain_primary(DeviceNumber device) {
  Context* context = nullptr;
  bool made = false;
  {
    const std::lock_guard lock(driver().mutex);
    auto& primary = driver().primary[static_cast<std::size_t>(device)];
    if ((made = primary == nullptr)) primary.reset(make_context(device, true));
    ++primary->retained;
    context = primary.get();
  }
  if (made) announce(cupti::context_created, context);
  return context;
}

Status release_primary(DeviceNumber device) {
  Context* const primary = driver().primary[static_cast<std::size_t>(device)].get();
  if (primary == nullptr || primary->retained == 0) return invalid_context;
  if (--primary->retained > 0) return success;
  announce(cupti::context_destroy_starting, primary);
  const std::lock_guard lock(driver().mutex);
  release_memory_of(*primary);
  return success;
}

}  // namespace

Driver& driver() {
  static auto* const state = new Driver;  // outlives every destructor in the program
  return *state;
}

bool initialized() { return ready.load(std::memory_order_acquire) && !forked.load(std::memory_order_relaxed); }

Context* current_context() { return current; }
std::uint32_t number_of(const Context* context) { return context != nullptr ? context->number : 0; }

std::uint32_t next_correlation() {
  static std::atomic<std::uint32_t> threads{0};
  thread_local std::uint32_t next = threads.fetch_add(1) << 20U;
  return ++next;
}

Gpu* memory_at(const Location& location) {
  const bool on_device = location.type == Location::device || location.type == Location::locality_domain;
  const int number = location.type == Location::locality_domain ? location.id & 0xFF : location.id;
  return on_device && valid(number) ? driver().gpus[static_cast<std::size_t>(number)].get()
                                    : driver().host_memory.get();
}

Gpu* current_gpu() {
  return current != nullptr ? driver().gpus[static_cast<std::size_t>(current->device)].get() : nullptr;
}

std::uint64_t event_delay() {
  // Deterministic per program; splitmix64.
  static std::atomic<std::uint64_t> state{0};
  if (settings.event_delay == 0) return 0;
  std::uint64_t x = state += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30U) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27U) * 0x94D049BB133111EB;
  return (x ^ x >> 31U) % (settings.event_delay + 1);
}

Status before_call(const Function& function) {
  if (!initialized()) return function.id == 1 ? success : not_initialized;
  if (settings.delay_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(settings.delay_us));
  if (settings.failures.empty()) return success;
  const auto found = settings.failures.find(function.name);
  if (found == settings.failures.end()) return success;
  return ++found->second.calls == found->second.failing ? out_of_memory : success;
}

}  // namespace fake

using namespace fake;

extern "C" {

Status cuInit(unsigned flags) {
  if (forked) return not_initialized;
  static std::once_flag once;
  std::call_once(once, [] {
    start();
    ready.store(true, std::memory_order_release);
    inject();
  });
  return call(functions::cuInit, flags, [] { return success; });
}

Status cuDriverGetVersion(int* version) {
  return *version = static_cast<int>(number_in("FAKE_CUDA_VERSION", 13000)), success;
}
Status cuGetErrorName(Status status, const char** name) {
  *name = status == success           ? "CUDA_SUCCESS"
          : status == out_of_memory   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == invalid_value   ? "CUDA_ERROR_INVALID_VALUE"
          : status == not_initialized ? "CUDA_ERROR_NOT_INITIALIZED"
                                      : "CUDA_ERROR_UNKNOWN";
  return success;
}
Status cuGetErrorString(Status status, const char** text) { return cuGetErrorName(status, text); }

Status cuDeviceGetCount(int* count) {
  if (!initialized()) return not_initialized;
  return *count = static_cast<int>(settings.gpus), success;
}
Status cuDeviceGet(DeviceNumber* device, int number) {
  if (!initialized()) return not_initialized;
  return valid(number) ? (*device = number, success) : invalid_device;
}
Status cuDeviceGetName(char* name, int size, DeviceNumber) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return success;
}
Status cuDeviceTotalMem_v2(std::size_t* size, DeviceNumber) { return *size = settings.memory, success; }
Status cuDeviceGetAttribute(int* value, int attribute, DeviceNumber) {
  constexpr int compute_major = 75, compute_minor = 76;
  *value = attribute == compute_major ? 9 : attribute == compute_minor ? 0 : 1;
  return success;
}
Status cuDeviceGetUuid_v2(std::array<char, 16>* uuid, DeviceNumber device) {
  uuid->fill('f');
  uuid->back() = static_cast<char>(device);
  return success;
}
Status cuDeviceGetPCIBusId(char* text, int size, DeviceNumber) {
  std::strncpy(text, "0000:00:04.0", static_cast<std::size_t>(size));
  return success;
}

Status cuCtxCreate_v2(Context** context, unsigned flags, DeviceNumber device) {
  return call(functions::cuCtxCreate_v2, arguments::CtxCreate{context, flags, device}, [&] {
    if (!valid(device)) return invalid_device;
    {
      const std::lock_guard lock(driver().mutex);
      *context = current = make_context(device, false);
    }
    announce(cupti::context_created, *context);
    return success;
  });
}
Status cuCtxDestroy_v2(Context* context) {
  return call(functions::cuCtxDestroy_v2, arguments::CtxDestroy{context}, [&] {
    announce(cupti::context_destroy_starting, context);
    const std::lock_guard lock(driver().mutex);
    if (driver().contexts.erase(context) == 0) return invalid_context;
    release_memory_of(*context);
    if (current == context) current = nullptr;
    delete context;
    return success;
  });
}
Status cuCtxGetCurrent(Context** context) { return *context = current, success; }
Status cuCtxSetCurrent(Context* context) {
  if (!initialized()) return not_initialized;
  return current = context, success;
}
Status cuCtxPushCurrent_v2(Context* context) { return cuCtxSetCurrent(context); }
Status cuCtxPopCurrent_v2(Context** context) {
  if (context != nullptr) *context = current;
  return current = nullptr, success;
}
Status cuCtxGetDevice(DeviceNumber* device) {
  return current != nullptr ? (*device = current->device, success) : invalid_context;
}
Status cuCtxEnablePeerAccess(Context* peer, unsigned) {
  return peer != nullptr && current != nullptr ? success : invalid_context;
}
Status cuCtxGetApiVersion(Context*, unsigned* version) { return *version = 13000, success; }

Status cuDevicePrimaryCtxRetain(Context** context, DeviceNumber device) {
  return call(functions::cuDevicePrimaryCtxRetain, arguments::PrimaryCtxRetain{context, device}, [&] {
    if (!valid(device)) return invalid_device;
    return *context = retain_primary(device), success;
  });
}
/// All processors are the same here.
Status cuDeviceGetDevResource(DeviceNumber device, void*, int) { return valid(device) ? success : invalid_device; }
Status cuDevResourceGenerateDesc(ResourceDescriptor** descriptor, void*, unsigned) {
  return *descriptor = nullptr, success;
}
/// Retains the primary context and uses its memory.
Status cuGreenCtxCreate(GreenContext** green, ResourceDescriptor* resources, DeviceNumber device, unsigned flags) {
  return call(functions::cuGreenCtxCreate, arguments::GreenCtxCreate{green, resources, device, flags}, [&] {
    if (!valid(device)) return invalid_device;
    Context* const primary = retain_primary(device);
    const std::lock_guard lock(driver().mutex);
    auto context = std::make_unique<Context>(Context{.device = device, .number = ++driver().context_count});
    context->green_of = primary;
    *green = new GreenContext{std::move(context)};
    return success;
  });
}
Status cuCtxFromGreenCtx(Context** context, GreenContext* green) {
  return call(functions::cuCtxFromGreenCtx, arguments::CtxFromGreenCtx{context, green},
              [&] { return *context = green->context.get(), success; });
}
/// Its memory stays: it belongs to the primary context, which is released here. Listeners see the context destroyed.
Status cuGreenCtxDestroy(GreenContext* green) {
  return call(functions::cuGreenCtxDestroy, arguments::GreenCtxDestroy{green}, [&] {
    announce(cupti::context_destroy_starting, green->context.get());
    const DeviceNumber device = green->context->device;
    if (current == green->context.get()) current = nullptr;
    delete green;
    return release_primary(device);
  });
}
Status cuDevicePrimaryCtxReset_v2(DeviceNumber device) {
  return call(functions::cuDevicePrimaryCtxReset_v2, arguments::PrimaryCtx{device}, [&] {
    if (!valid(device)) return invalid_device;
    Context* const primary = driver().primary[static_cast<std::size_t>(device)].get();
    if (primary == nullptr) return success;
    announce(cupti::context_destroy_starting, primary);
    const std::lock_guard lock(driver().mutex);
    release_memory_of(*primary);
    return success;
  });
}
Status cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  return call(functions::cuDevicePrimaryCtxRelease_v2, arguments::PrimaryCtx{device},
              [&] { return valid(device) ? release_primary(device) : invalid_device; });
}
Status cuDevicePrimaryCtxGetState(DeviceNumber device, unsigned* flags, int* active) {
  if (!initialized() || !valid(device)) return invalid_device;
  *flags = 0;
  *active = driver().primary[static_cast<std::size_t>(device)] != nullptr ? 1 : 0;
  return success;
}

/// Like dlsym, with the version that the unversioned name maps to: what cudart and every later library calls.
Status cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t flags, int* found) {
  constexpr std::uint64_t per_thread_stream = 2;
  *function = nullptr;
  for (const char* suffix : {per_thread_stream & flags ? "_ptsz" : "_v2", "_v2", ""}) {
    *function = dlsym(RTLD_DEFAULT, (std::string(symbol) + suffix).c_str());
    if (*function == nullptr) {
      void* const self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
      if (self != nullptr) *function = dlsym(self, (std::string(symbol) + suffix).c_str());
    }
    if (*function != nullptr) break;
  }
  if (found != nullptr) *found = *function != nullptr ? 0 : 1;
  return *function != nullptr ? success : not_found;
}
Status cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
}
