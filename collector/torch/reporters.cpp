// SPDX-License-Identifier: Apache-2.0
#include "collector/torch/reporters.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <new>

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

namespace memreel::torch {
namespace {

// ATen/SequenceNumber.h, torch/csrc/autograd/graph_task.h; at least from PyTorch 2.1 on.
constexpr const char* peek_symbol = "_ZN2at15sequence_number4peekEv";
constexpr const char* node_symbol = "_ZN5torch8autograd16get_current_nodeEv";
constexpr const char* task_symbol = "_ZN5torch8autograd25get_current_graph_task_idEv";
using Peek = std::uint64_t();
using CurrentNode = std::shared_ptr<const void>();
using CurrentTask = int();
constexpr int no_task = -1;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): hooks have no other way to find them
std::atomic<Peek*> peek = nullptr;
std::atomic<CurrentNode*> current_node = nullptr;  // null: its result could not be released again
std::atomic<CurrentTask*> current_task = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// The start of a torch::autograd::Node (torch/csrc/autograd/function.h): it is polymorphic, derives from
/// enable_shared_from_this, and its first member is the number.
struct Node {
  const void* functions;
  const void* itself;  // what shared_from_this() gives
  const void* count;
  std::uint64_t sequence;
};

/// Nodes that accumulate into leaves: no operator made them.
constexpr std::uint64_t no_sequence = ~std::uint64_t{0};

/// Storage for the result of get_current_node(): a std::shared_ptr of two words, or in newer releases (2.14) a
/// c10::intrusive_ptr of one. The function has the same name in both, but leaves the second word as it was in the
/// latter.
struct Returned {
  Returned(const Returned&) = delete;
  ~Returned() {}  // NOLINT(modernize-use-equals-default): makes it a class that is returned in memory, as both are
  std::uint64_t first, second;
};

/// Call on a thread that runs no node.
bool returns_shared_ptr(void* get_current_node) {
  alignas(Returned) std::array<std::uint64_t, 2> room{};
  static_assert(sizeof(Returned) == sizeof(room));
  room.fill(no_sequence);
  asm volatile("" : : "r"(room.data()) : "memory");  // the room is looked at before it is returned to
  const auto* const returned = new (room.data()) Returned(std::bit_cast<Returned (*)()>(get_current_node)());
  return returned->first == 0 && returned->second == 0;
}

}  // namespace

void look_for_autograd() {
  if (peek.load(std::memory_order_relaxed) != nullptr) return;
  void* const library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  auto* const found_peek = std::bit_cast<Peek*>(dlsym(library, peek_symbol));
  auto* const found_task = std::bit_cast<CurrentTask*>(dlsym(library, task_symbol));
  void* const found_node = dlsym(library, node_symbol);
  const bool looks_at_nodes = found_node != nullptr && returns_shared_ptr(found_node);
  if (found_peek == nullptr || (!looks_at_nodes && found_task == nullptr)) return;
  if (looks_at_nodes) current_node.store(std::bit_cast<CurrentNode*>(found_node), std::memory_order_relaxed);
  current_task.store(found_task, std::memory_order_relaxed);
  peek.store(found_peek, std::memory_order_release);
}

[[gnu::hot]] AutogradPosition autograd_position() noexcept {
  Peek* const next = peek.load(std::memory_order_acquire);
  if (next == nullptr) return {};
  CurrentNode* const get_current_node = current_node.load(std::memory_order_relaxed);
  if (get_current_node == nullptr) {
    if (current_task.load(std::memory_order_relaxed)() != no_task) return {.backward = true};
    return {.sequence = static_cast<std::uint32_t>(next())};
  }
  const std::shared_ptr<const void> running = get_current_node();
  if (running == nullptr) return {.sequence = static_cast<std::uint32_t>(next())};
  const auto* const node = static_cast<const Node*>(running.get());
  if (node->itself != node || node->sequence == no_sequence) return {.backward = true};
  return {.sequence = static_cast<std::uint32_t>(node->sequence + 1), .backward = true};
}

}  // namespace memreel::torch
