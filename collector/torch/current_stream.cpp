#include "collector/torch/current_stream.h"

#include <dlfcn.h>

#include <atomic>
#include <bit>

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

}  // namespace memreel::torch
