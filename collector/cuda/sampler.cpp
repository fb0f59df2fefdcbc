// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/sampler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "collector/cuda/calls.h"
#include "collector/cuda/cupti_backend.h"
#include "collector/recorder/own_thread.h"
#include "collector/stacks/nap.h"

namespace memreel::cuda {

/// The driver's query functions; null if the driver is too old to have one.
struct Sampler::Driver {
  Status (*set_context)(const void* context);
  Status (*memory_info)(std::size_t* free, std::size_t* total);
  Status (*exchange_capture_mode)(int* mode);
  Status (*default_pool)(void** pool, Device device);
  Status (*pool_attribute)(const void* pool, int attribute, void* value);
  Status (*graph_memory)(Device, int attribute, void* value);
};

namespace {

constexpr int relaxed_capture = 2;                     // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr int reserved_current = 5, used_current = 7;  // CUmemPool_attribute
constexpr int graphs_used = 0, graphs_reserved = 2;    // CUgraphMem_attribute

/// The calls of a thread that suspend sampling; they may nest.
struct Suspending {
  std::uint32_t set, calls;
};
// Initial-exec: no allocation at a thread's first access.
[[gnu::tls_model("initial-exec")]] constinit thread_local Suspending suspending{};  // NOLINT

constexpr std::uint64_t next_set = std::uint64_t{1} << 32U;
std::uint32_t set_of(std::uint64_t suspended) { return static_cast<std::uint32_t>(suspended >> 32U); }
std::uint32_t calls_of(std::uint64_t suspended) { return static_cast<std::uint32_t>(suspended); }

/// Waits until `busy` is false, at most a second.
void wait_while(const std::atomic<bool>& busy) {
  stacks::nap_until([&] { return !busy.load(); }, std::chrono::seconds(1));
}

}  // namespace

void Sampler::begin(std::chrono::milliseconds period) {
  if (period.count() == 0 || running_) return;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return;
  static Driver driver{};
  find(library, "cuCtxSetCurrent", driver.set_context);
  find(library, "cuMemGetInfo_v2", driver.memory_info);
  find(library, "cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode);
  find(library, "cuDeviceGetDefaultMemPool", driver.default_pool);
  find(library, "cuMemPoolGetAttribute", driver.pool_attribute);
  find(library, "cuDeviceGetGraphMemAttribute", driver.graph_memory);
  if (driver.set_context == nullptr || driver.memory_info == nullptr) return;
  driver_ = &driver;
  last_.clear();  // a new recording has no samples yet
  period_ = period;
  ending_ = false;
  forget_calls();
  running_ = agent::start_own_thread(
      thread_, "memreel-sample",
      [](void* self) -> void* {
        static_cast<Sampler*>(self)->run();
        return nullptr;
      },
      this);
}

void Sampler::end() {
  if (!running_) return;
  ending_ = true;
  wakeup_.wake();
  wait_while(asking_);
  agent::join_own_thread(thread_, std::chrono::seconds(1));
  running_ = false;
}

void Sampler::forget() {
  running_ = false;
  asking_ = false;
  forget_calls();
}

void Sampler::forget_calls() {
  std::uint64_t before = suspended_.load();
  while (!suspended_.compare_exchange_weak(before, (before / next_set + 1) * next_set)) {
  }
}

void Sampler::suspend() {
  const std::uint32_t set = set_of(suspended_.fetch_add(1));
  if (suspending.set != set) suspending = {.set = set, .calls = 0};
  ++suspending.calls;
  wait_while(asking_);
}

void Sampler::resume() {
  if (suspending.calls == 0) return;  // the call was entered before anybody watched
  --suspending.calls;
  std::uint64_t now = suspended_.load();
  while (set_of(now) == suspending.set && !suspended_.compare_exchange_weak(now, now - 1)) {
  }
}

void Sampler::run() {
  // A query must not invalidate a capture in progress on one of the program's threads.
  int mode = relaxed_capture;
  if (driver_->exchange_capture_mode != nullptr) driver_->exchange_capture_mode(&mode);
  while (!ending_) {
    asking_ = true;
    if (calls_of(suspended_) == 0 && !ending_ && recorder_() != nullptr) ask();
    asking_ = false;
    wakeup_.wait(period_);
  }
}

void Sampler::ask() {
  std::uint64_t asked = 0;  // devices
  sampled_->contexts.for_each([&](const void* context, std::int16_t device) {
    const std::uint64_t bit = device >= 0 && device < 64 ? std::uint64_t{1} << static_cast<unsigned>(device) : 0;
    if ((asked & bit) != 0 || driver_->set_context(context) != success) return;
    asked |= bit;
    std::size_t free = 0, total = 0;
    if (driver_->memory_info(&free, &total) == success)
      emit({.address = free, .size = total - free, .device = device, .kind = agent::RecordKind::memory_info});
    void* pool = nullptr;
    const bool ordered = (sampled_->ordered.load(std::memory_order_relaxed) & bit) != 0;
    if (ordered && driver_->default_pool != nullptr && driver_->default_pool(&pool, device) == success)
      ask_pool(pool, 0, device);
    if ((sampled_->graphs.load(std::memory_order_relaxed) & bit) != 0) ask_graphs(device);
    driver_->set_context(nullptr);
  });
  if (asked != 0 && until_process_-- == 0) ask_process();
  sampled_->pools.for_each(
      [&](const void* pool, std::int16_t device) { ask_pool(pool, reinterpret_cast<std::uintptr_t>(pool), device); });
}

/// The resident set, in MiB: it changes by a few pages all the time.
void Sampler::ask_process() {
  constexpr std::uint32_t every = 10;
  constexpr std::uint64_t unit = 1U << 20U;
  until_process_ = every - 1;
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, 128> text{};
  const ssize_t length = ::read(file, text.data(), text.size());
  ::close(file);
  // "size resident shared ...", in pages
  const std::string_view words(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  const std::size_t space = words.find(' ');
  if (space == std::string_view::npos) return;
  std::uint64_t pages = 0;
  const char* const end = words.data() + words.size();
  if (std::from_chars(words.data() + space + 1, end, pages).ec != std::errc{} || pages == 0) return;
  const std::uint64_t bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  emit({.size = bytes / unit * unit, .device = -1, .kind = agent::RecordKind::memory_info});
}

/// `object`: the pool's number in records.
void Sampler::ask_pool(const void* pool, std::uint64_t object, std::int16_t device) {
  std::uint64_t reserved = 0, used = 0;
  if (driver_->pool_attribute == nullptr) return;
  if (driver_->pool_attribute(pool, reserved_current, &reserved) != success) return;
  if (driver_->pool_attribute(pool, used_current, &used) != success) return;
  emit({.address = reserved - used,
        .size = used,
        .object = object,
        .device = device,
        .kind = agent::RecordKind::memory_info,
        .space = agent::Space::ordered});
}

/// Memory of graphs is given and taken by launches, not by calls.
void Sampler::ask_graphs(std::int16_t device) {
  std::uint64_t reserved = 0, used = 0;
  if (driver_->graph_memory == nullptr) return;
  if (driver_->graph_memory(device, graphs_reserved, &reserved) != success) return;
  if (driver_->graph_memory(device, graphs_used, &used) != success) return;
  emit({.address = reserved - std::min(reserved, used),
        .size = used,
        .device = device,
        .kind = agent::RecordKind::memory_info,
        .space = agent::Space::graph});
}

/// Emits only changes.
void Sampler::emit(const agent::Record& sample) {
  const std::tuple about(sample.space, sample.object, sample.device);
  const std::pair now(sample.size, sample.address);
  const auto [last, is_new] = last_.try_emplace(about, now);
  if (!is_new && std::exchange(last->second, now) == now) return;
  if (agent::Recorder* const recorder = recorder_()) recorder->emit(sample);
}

}  // namespace memreel::cuda
