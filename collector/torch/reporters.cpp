#include "collector/torch/reporters.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <cstddef>

#include "collector/recorder/recorder.h"
#include "collector/torch/allocator_trace.h"
#include "collector/torch/autograd.h"
#include "collector/torch/current_stream.h"

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
  if (auto* const real = torch::out_of_memory()) real(size, allocated, reserved, device);
}
