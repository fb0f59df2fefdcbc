// SPDX-License-Identifier: Apache-2.0
#include "collector/torch/reporters.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "collector/recorder/recorder.h"
#include "collector/torch/allocator_trace.h"
#include "formats/torch/alloc_conf.h"

namespace memreel::torch {

namespace {

/// c10::cuda::CUDAStream, which consists of a c10::Stream: a device and an ID. It is trivially copyable, hence returned
/// in registers.
struct Stream {
  std::int8_t device_type;
  std::int8_t device_index;
  std::int64_t id;
};
static_assert(sizeof(Stream) == 16);

// c10/cuda/CUDAStream.h, the same from PyTorch 1.13 to 2.11.
constexpr const char* current_symbol = "_ZN3c104cuda20getCurrentCUDAStreamEa";
constexpr const char* handle_symbol = "_ZNK3c104cuda10CUDAStream6streamEv";
using Current = Stream(std::int8_t device);
using Handle = void*(const Stream* stream);

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): hooks have no other way to find them
std::atomic<Current*> current = nullptr;
std::atomic<Handle*> handle = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void look_for_streams() {
  if (current.load(std::memory_order_relaxed) != nullptr) return;
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  auto* const found_current = std::bit_cast<Current*>(dlsym(library, current_symbol));
  auto* const found_handle = std::bit_cast<Handle*>(dlsym(library, handle_symbol));
  if (found_current == nullptr || found_handle == nullptr) return;
  handle.store(found_handle, std::memory_order_relaxed);
  current.store(found_current, std::memory_order_release);
}

std::uint64_t current_stream(std::int8_t device) noexcept {
  Current* const get = current.load(std::memory_order_acquire);
  if (get == nullptr) return 0;
  const Stream stream = get(device);
  if (stream.id == 0) return 0;  // the default stream
  return std::bit_cast<std::uint64_t>(handle.load(std::memory_order_relaxed)(&stream));
}

// NOLINTBEGIN(concurrency-mt-unsafe): reads only
std::string other_allocator() {
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  dlclose(library);
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) return "the driver (PYTORCH_NO_CUDA_MEMORY_CACHING)";
  for (const char* const variable : conf_variables)
    if (const char* const conf = std::getenv(variable);
        conf != nullptr && value_in(conf, "backend") == "cudaMallocAsync")
      return "cudaMallocAsync (backend:cudaMallocAsync)";
  return is_replaced() ? "a pluggable allocator" : "";
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace memreel::torch

// As PyTorch declares them (c10/core/Allocator.h, c10/core/Device.h): the names and types make the symbols.
// NOLINTBEGIN(readability-identifier-naming)
namespace c10 {

struct Device {
  std::int8_t type;
  std::int8_t index;
};

[[gnu::visibility("default")]] void reportMemoryUsageToProfiler(void* address, std::int64_t change,
                                                                std::size_t allocated, std::size_t reserved,
                                                                Device device);
[[gnu::visibility("default")]] void reportOutOfMemoryToProfiler(std::int64_t size, std::size_t allocated,
                                                                std::size_t reserved, Device device);

}  // namespace c10
// NOLINTEND(readability-identifier-naming)

namespace memreel::torch {
namespace {

using Report = void(void*, std::int64_t, std::size_t, std::size_t, c10::Device);
using OutOfMemory = void(std::int64_t, std::size_t, std::size_t, c10::Device);

/// Functions of libc10, which is not in the global scope: it comes with a Python extension. NOLINTBEGIN: the functions
/// below have no other way to find them
std::atomic<Report*> real_report = nullptr;
std::atomic<OutOfMemory*> real_out_of_memory = nullptr;
// NOLINTEND

template <class Function>
Function* find(std::atomic<Function*>& kept, const char* symbol) {
  if (Function* const known = kept.load(std::memory_order_acquire)) return known;
  void* const library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  auto* const found = std::bit_cast<Function*>(dlsym(library, symbol));
  kept.store(found, std::memory_order_release);
  return found;
}

Report* report() { return find(real_report, report_symbol.data()); }
OutOfMemory* out_of_memory() { return find(real_out_of_memory, out_of_memory_symbol.data()); }

std::atomic<bool> is_recorded = true;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::atomic<void (*)()> failure = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

constexpr std::uint16_t out_of_memory_status = 2;  // CUDA_ERROR_OUT_OF_MEMORY
constexpr std::int8_t cuda_device = 1;             // c10::DeviceType::CUDA; AMD's builds use it as well

/// The recorder for reports on `device`; null if it is not recorded.
agent::Recorder* recorder_of(c10::Device device) {
  if (device.type != cuda_device || !is_recorded.load(std::memory_order_relaxed)) return nullptr;
  return agent::recorder();
}

void record(agent::Recorder* recorder, agent::RecordKind kind, const void* address, std::uint64_t size,
            std::uint64_t allocated, c10::Device device) {
  agent::Record record;
  record.kind = kind;
  record.space = agent::Space::torch;
  record.address = std::bit_cast<std::uint64_t>(address);
  record.size = size;
  record.object = allocated;
  record.device = std::int16_t{device.index};
  if (kind == agent::RecordKind::alloc_failed) record.status = out_of_memory_status;
  if (kind != agent::RecordKind::free) record.stream = current_stream(device.index);
  recorder->emit_with_stack(record);
}

}  // namespace

void* report_function() { return reinterpret_cast<void*>(&c10::reportMemoryUsageToProfiler); }
void* out_of_memory_function() { return reinterpret_cast<void*>(&c10::reportOutOfMemoryToProfiler); }

void on_failure(void (*call)()) { failure.store(call, std::memory_order_release); }

void set_recorded(bool recorded) { is_recorded.store(recorded, std::memory_order_relaxed); }

void look() {
  report();
  out_of_memory();
  look_for_streams();
  look_for_allocator();
  look_for_autograd();
}

}  // namespace memreel::torch

[[gnu::hot]] void c10::reportMemoryUsageToProfiler(void* address, std::int64_t change, std::size_t allocated,
                                                   std::size_t reserved, Device device) {
  using namespace memreel;  // NOLINT(google-build-using-namespace)
  agent::Recorder* const recorder = torch::recorder_of(device);
  if (recorder != nullptr && change != 0 &&
      !torch::take_report(*recorder, std::bit_cast<std::uint64_t>(address), change, allocated, reserved, device.index))
    torch::record(recorder, change < 0 ? agent::RecordKind::free : agent::RecordKind::alloc, address,
                  static_cast<std::uint64_t>(change < 0 ? -change : change), allocated, device);
  if (auto* const real = torch::report()) real(address, change, allocated, reserved, device);
}

void c10::reportOutOfMemoryToProfiler(std::int64_t size, std::size_t allocated, std::size_t reserved, Device device) {
  using namespace memreel;  // NOLINT(google-build-using-namespace)
  agent::Recorder* const recorder = torch::recorder_of(device);
  if (recorder != nullptr && !torch::takes_failures())
    torch::record(recorder, agent::RecordKind::alloc_failed, nullptr, static_cast<std::uint64_t>(size), allocated,
                  device);
  if (recorder != nullptr)
    if (void (*const call)() = torch::failure.load(std::memory_order_acquire)) call();
  if (auto* const real = torch::out_of_memory()) real(size, allocated, reserved, device);
}
