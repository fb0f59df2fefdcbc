// A program that uses GPU memory in one particular way and says what it did (samples/cuda/ground_truth.h).
//
//   fake_program MODE [NUMBER...]       fake_program without arguments lists the modes
//
// Sizes and orders come from a generator with a fixed seed: what a mode does is the same in every run.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "samples/cuda/ground_truth.h"
#include "tests/fake/cuda_functions.h"

namespace {

using fake::DevicePointer, fake::Status;
using Random = std::mt19937_64;
using Numbers = std::vector<std::uint64_t>;

constexpr std::uint64_t mib = 1U << 20U;

/// Ends the program when something that must work did not.
void must(Status status, const char* what) {
  if (status == fake::success) return;
  std::fprintf(stderr, "fake_program: %s failed: %d\n", what, status);
  std::_Exit(99);
}

fake::Context* use_gpu() {
  must(cuInit(0), "cuInit");
  fake::Context* context = nullptr;
  must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return context;
}

std::uint64_t random_size(Random& random) {
  return std::uniform_int_distribution<std::uint64_t>(1, 1ULL << (6 + random() % 17))(random);
}

struct Block {
  DevicePointer pointer = 0;
  std::uint64_t size = 0;
};

bool allocate(std::uint64_t size, Block& block) {
  block.size = size;
  if (cuMemAlloc_v2(&block.pointer, size) != fake::success) {
    truth::failed("linear", size);
    return false;
  }
  truth::allocated("linear", block.pointer, size);
  return true;
}

void release(const Block& block) {
  truth::freeing("linear", block.pointer, block.size);
  must(cuMemFree_v2(block.pointer), "cuMemFree");
}

/// Allocates and frees `count` times; frees what is left at the end unless told to keep it.
void churn(std::uint64_t count, std::uint64_t seed, bool keep = false) {
  Random random(seed);
  std::vector<Block> held;
  for (std::uint64_t i = 0; i < count; ++i) {
    Block block;
    if (allocate(random_size(random), block)) held.push_back(block);
    while (held.size() > 40 || (!held.empty() && random() % 3 == 0)) {
      std::swap(held[random() % held.size()], held.back());
      release(held.back());
      held.pop_back();
    }
  }
  if (!keep)
    for (const Block& block : held) release(block);
}

// --- modes -----------------------------------------------------------------------------------------------------------

int single(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  return 0;
}

/// Threads that free what other threads allocated: what one lets go of is the next one's address.
int threads(const Numbers& n) {
  fake::Context* const context = use_gpu();
  std::mutex mutex;
  std::vector<Block> shared;
  std::vector<std::thread> workers;
  for (std::uint64_t t = 0; t < n[0]; ++t) {
    workers.emplace_back([&, t] {
      must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
      Random random(t);
      for (std::uint64_t i = 0; i < n[1]; ++i) {
        Block block;
        if (!allocate(512 * (1 + random() % 8), block)) continue;
        {
          const std::lock_guard lock(mutex);
          shared.push_back(block);
          if (shared.size() < 2 * n[0]) continue;
          std::swap(shared[random() % shared.size()], shared.back());
          block = shared.back();
          shared.pop_back();
        }
        release(block);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const Block& block : shared) release(block);
  return 0;
}

int short_threads(const Numbers& n) {
  fake::Context* const context = use_gpu();
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    std::thread([&] {
      must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
      Block block;
      if (allocate(512, block)) release(block);
    }).join();
  }
  return 0;
}

// Named frames, for stacks.
extern "C" __attribute__((noinline)) void innermost_frame(std::uint64_t size) {
  Block block;
  if (allocate(size, block)) release(block);
  asm volatile("");  // no tail call
}
extern "C" __attribute__((noinline)) void nested_frame(std::uint64_t depth) {
  if (depth == 0)
    innermost_frame(4096);
  else
    nested_frame(depth - 1);
  asm volatile("");
}

int nested(const Numbers& n) {
  use_gpu();
  nested_frame(n[0]);
  return 0;
}

int failures(const Numbers&) {
  use_gpu();
  Block block, unused;
  allocate(3 * mib, block);
  allocate(1ULL << 50U, unused);
  allocate(1ULL << 49U, unused);
  // Not truth: nothing of it changes what is allocated.
  cuMemFree_v2(0xdead'beef'0000);
  cuMemAlloc_v2(&unused.pointer, 0);
  release(block);
  return 0;
}

int kinds(const Numbers&) {
  use_gpu();
  DevicePointer pointer = 0;
  void* host = nullptr;
  std::size_t pitch = 0;
  must(cuMemAllocPitch_v2(&pointer, &pitch, 1000, 64, 4), "cuMemAllocPitch");
  truth::allocated("linear", pointer, pitch * 64);
  truth::freeing("linear", pointer, pitch * 64);
  must(cuMemFree_v2(pointer), "cuMemFree");

  must(cuMemAllocManaged(&pointer, 5 * mib, 1), "cuMemAllocManaged");
  truth::allocated("managed", pointer, 5 * mib);
  truth::freeing("managed", pointer, 5 * mib);
  must(cuMemFree_v2(pointer), "cuMemFree");

  must(cuMemAllocHost_v2(&host, 3 * mib), "cuMemAllocHost");
  truth::allocated("pinned", host, 3 * mib);
  truth::freeing("pinned", host, 3 * mib);
  must(cuMemFreeHost(host), "cuMemFreeHost");

  must(cuMemHostAlloc(&host, 2 * mib, 0), "cuMemHostAlloc");
  truth::allocated("pinned", host, 2 * mib);
  truth::freeing("pinned", host, 2 * mib);
  must(cuMemFreeHost(host), "cuMemFreeHost");

  std::vector<char> own(mib);
  must(cuMemHostRegister_v2(own.data(), own.size(), 0), "cuMemHostRegister");
  truth::allocated("registered", own.data(), own.size());
  truth::freeing("registered", own.data(), own.size());
  must(cuMemHostUnregister(own.data()), "cuMemHostUnregister");

  fake::Array* array = nullptr;
  constexpr int float32 = 0x20;
  const fake::Array3DDescriptor shape{.width = 256, .height = 128, .depth = 0, .format = float32, .channels = 4};
  must(cuArray3DCreate_v2(&array, &shape), "cuArray3DCreate");
  truth::allocated("array", array, std::uint64_t{256} * 128 * 4 * 4);
  truth::freeing("array", array, std::uint64_t{256} * 128 * 4 * 4);
  must(cuArrayDestroy(array), "cuArrayDestroy");
  return 0;
}

int pools(const Numbers& n) {
  use_gpu();
  fake::Stream* stream = nullptr;
  fake::Pool* pool = nullptr;
  const fake::PoolProperties properties;
  must(cuStreamCreate(&stream, 1), "cuStreamCreate");
  must(cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  Random random(4);
  std::vector<Block> held;
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    Block block{.size = random_size(random)};
    must(i % 2 == 0 ? cuMemAllocAsync(&block.pointer, block.size, stream)
                    : cuMemAllocFromPoolAsync(&block.pointer, block.size, pool, stream),
         "cuMemAllocAsync");
    truth::allocated("ordered", block.pointer, block.size);
    held.push_back(block);
    if (held.size() < 8) continue;
    std::swap(held[random() % held.size()], held.back());
    truth::freeing("ordered", held.back().pointer, held.back().size);
    must(cuMemFreeAsync(held.back().pointer, stream), "cuMemFreeAsync");
    held.pop_back();
  }
  for (const Block& block : held) {
    truth::freeing("ordered", block.pointer, block.size);
    must(cuMemFreeAsync(block.pointer, stream), "cuMemFreeAsync");
  }
  must(cuStreamSynchronize(stream), "cuStreamSynchronize");
  must(cuMemPoolDestroy(pool), "cuMemPoolDestroy");
  must(cuStreamDestroy_v2(stream), "cuStreamDestroy");
  return 0;
}

/// Grows and shrinks one range as PyTorch's expandable segments do, with the handle let go of right after mapping.
int vmm(const Numbers&) {
  use_gpu();
  constexpr std::uint64_t unit = 2 * mib, pieces = 6;
  const fake::AllocationProperties properties;
  const fake::Access access;
  DevicePointer base = 0;
  must(cuMemAddressReserve(&base, pieces * unit, 0, 0, 0), "cuMemAddressReserve");
  truth::say("reserve", "addresses", base, pieces * unit);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    fake::AllocationHandle handle = 0;
    must(cuMemCreate(&handle, unit, &properties, 0), "cuMemCreate");
    truth::say("alloc", "physical", 0, unit);
    must(cuMemMap(base + i * unit, unit, 0, handle, 0), "cuMemMap");
    truth::say("map", "mapped", base + i * unit, unit);
    must(cuMemRelease(handle), "cuMemRelease");
  }
  must(cuMemSetAccess(base, pieces * unit, &access, 1), "cuMemSetAccess");
  // Retained: unmapping it is not the end of its memory.
  fake::AllocationHandle retained = 0;
  must(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(base)), "cuMemRetainAllocationHandle");
  for (const std::uint64_t i : {4U, 0U, 5U, 1U, 2U, 3U}) {
    truth::say("unmap", "mapped", base + i * unit, unit);
    if (i != 0) truth::say("free", "physical", 0, unit);
    must(cuMemUnmap(base + i * unit, unit), "cuMemUnmap");
  }
  truth::say("free", "physical", 0, unit);
  must(cuMemRelease(retained), "cuMemRelease");
  truth::say("release", "addresses", base, pieces * unit);
  must(cuMemAddressFree(base, pieces * unit), "cuMemAddressFree");
  return 0;
}

/// Capture is not an allocation; the launch is.
int capture(const Numbers&) {
  use_gpu();
  fake::Stream* stream = nullptr;
  fake::Graph* graph = nullptr;
  fake::GraphExec* exec = nullptr;
  DevicePointer inside = 0;
  must(cuStreamCreate(&stream, 1), "cuStreamCreate");
  Block before;
  allocate(mib, before);
  must(cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
  must(cuMemAllocAsync(&inside, 7 * mib, stream), "cuMemAllocAsync");
  truth::say("node", "graph", inside, 7 * mib);
  truth::say("free_node", "graph", inside, 7 * mib);
  must(cuMemFreeAsync(inside, stream), "cuMemFreeAsync");
  must(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  must(cuGraphLaunch(exec, stream), "cuGraphLaunch");
  must(cuGraphLaunch(exec, stream), "cuGraphLaunch");
  must(cuStreamSynchronize(stream), "cuStreamSynchronize");
  must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
  must(cuGraphDestroy(graph), "cuGraphDestroy");
  release(before);
  return 0;
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Memory of two devices by turns: whose context is current says nothing about where a pool, a piece of physical memory
/// or what is freed is. Needs two GPUs.
int devices(const Numbers& n) {
  must(cuInit(0), "cuInit");
  std::array<fake::Context*, 2> contexts{};
  for (int device = 0; device < 2; ++device)
    must(cuDevicePrimaryCtxRetain(&contexts[static_cast<std::size_t>(device)], device), "cuDevicePrimaryCtxRetain");
  const auto use = [&](std::size_t device) { must(cuCtxSetCurrent(contexts[device]), "cuCtxSetCurrent"); };
  for (const std::size_t device : {0U, 1U}) {
    use(device);
    must(cuCtxEnablePeerAccess(contexts[1 - device], 0), "cuCtxEnablePeerAccess");
  }
  Random random(5);
  std::vector<std::pair<Block, std::size_t>> held;
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    const std::size_t device = random() % 2;
    Block block{.size = random_size(random)};
    use(device);
    must(cuMemAlloc_v2(&block.pointer, block.size), "cuMemAlloc");
    truth::say("alloc", "linear", block.pointer, block.size, static_cast<int>(device));
    held.emplace_back(block, device);
    if (held.size() < 20 && i + 1 < n[0]) continue;
    const auto& [other, its] = held.front();
    must(cuMemcpyPeer(block.pointer, contexts[device], other.pointer, contexts[its], 1), "cuMemcpyPeer");
    use(random() % 2);
    while (held.size() > (i + 1 < n[0] ? 10 : 0)) {
      std::swap(held[random() % held.size()], held.back());
      truth::say("free", "linear", held.back().first.pointer, held.back().first.size,
                 static_cast<int>(held.back().second));
      must(cuMemFree_v2(held.back().first.pointer), "cuMemFree");
      held.pop_back();
    }
  }

  constexpr std::uint64_t unit = 2 * mib, pieces = 4;
  DevicePointer base = 0;
  use(0);
  must(cuMemAddressReserve(&base, pieces * unit, 0, 0, 0), "cuMemAddressReserve");
  truth::say("reserve", "addresses", base, pieces * unit);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const int device = static_cast<int>(i % 2);
    const fake::AllocationProperties properties{.location = {.id = device}};
    fake::AllocationHandle handle = 0;
    must(cuMemCreate(&handle, unit, &properties, 0), "cuMemCreate");
    truth::say("alloc", "physical", 0, unit, device);
    must(cuMemMap(base + i * unit, unit, 0, handle, 0), "cuMemMap");
    truth::say("map", "mapped", base + i * unit, unit, device);
    must(cuMemRelease(handle), "cuMemRelease");
  }
  const std::array access{fake::Access{}, fake::Access{.location = {.id = 1}}};
  must(cuMemSetAccess(base, pieces * unit, access.data(), access.size()), "cuMemSetAccess");
  use(1);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    truth::say("unmap", "mapped", base + i * unit, unit, static_cast<int>(i % 2));
    truth::say("free", "physical", 0, unit, static_cast<int>(i % 2));
    must(cuMemUnmap(base + i * unit, unit), "cuMemUnmap");
  }
  truth::say("release", "addresses", base, pieces * unit);
  must(cuMemAddressFree(base, pieces * unit), "cuMemAddressFree");

  // The pool's device is not the stream's.
  const fake::PoolProperties properties{.location = {.id = 1}};
  fake::Stream* stream = nullptr;
  fake::Pool* pool = nullptr;
  use(0);
  must(cuStreamCreate(&stream, 1), "cuStreamCreate");
  must(cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  Block block{.size = 3 * mib};
  must(cuMemAllocFromPoolAsync(&block.pointer, block.size, pool, stream), "cuMemAllocFromPoolAsync");
  truth::say("alloc", "ordered", block.pointer, block.size, 1);
  truth::say("free", "ordered", block.pointer, block.size, 1);
  must(cuMemFreeAsync(block.pointer, stream), "cuMemFreeAsync");
  must(cuStreamSynchronize(stream), "cuStreamSynchronize");
  must(cuMemPoolDestroy(pool), "cuMemPoolDestroy");
  must(cuStreamDestroy_v2(stream), "cuStreamDestroy");
  return 0;
}

/// One process opens what another has, from another device where there is one.
int open_of_another(const Numbers& n) {
  std::array<int, 2> there{}, back{};
  if (pipe(there.data()) != 0 || pipe(back.data()) != 0) return 97;
  fake::IpcHandle handle;
  char done = 0;
  int count = 0;
  const pid_t child = fork();
  fake::Context* context = nullptr;
  must(cuInit(0), "cuInit");
  must(cuDeviceGetCount(&count), "cuDeviceGetCount");
  must(cuDevicePrimaryCtxRetain(&context, child == 0 && count > 1 ? 1 : 0), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  if (child == 0) {
    if (read(there[0], &handle, sizeof handle) != sizeof handle) return 97;
    DevicePointer opened = 0;
    must(cuIpcOpenMemHandle_v2(&opened, handle, 1), "cuIpcOpenMemHandle");
    const int device = count > 1 ? 1 : 0;
    truth::say("map", "imported", opened, n[0] * mib, device);
    truth::say("unmap", "imported", opened, n[0] * mib, device);
    must(cuIpcCloseMemHandle(opened), "cuIpcCloseMemHandle");
    return write(back[1], &done, 1) == 1 ? 0 : 97;
  }
  Block block{.size = n[0] * mib};
  must(cuMemAlloc_v2(&block.pointer, block.size), "cuMemAlloc");
  truth::say("alloc", "linear", block.pointer, block.size, 0);
  must(cuIpcGetMemHandle(&handle, block.pointer), "cuIpcGetMemHandle");
  if (write(there[1], &handle, sizeof handle) != sizeof handle || read(back[0], &done, 1) != 1) return 97;
  truth::say("free", "linear", block.pointer, block.size, 0);
  must(cuMemFree_v2(block.pointer), "cuMemFree");
  return wait_for(child);
}

/// A context takes its linear memory with it.
int contexts(const Numbers&) {
  must(cuInit(0), "cuInit");
  fake::Context* context = nullptr;
  must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
  Block first, second, third;
  allocate(mib, first);
  allocate(3 * mib, second);
  allocate(5 * mib, third);
  release(second);
  truth::freeing("linear", first.pointer, first.size);
  truth::freeing("linear", third.pointer, third.size);
  must(cuCtxDestroy_v2(context), "cuCtxDestroy");
  return 0;
}

/// The child of a program that uses CUDA can't use it; it must live and end as if nobody watched.
int fork_late(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  const pid_t child = fork();
  if (child == 0) {
    DevicePointer pointer = 0;
    std::exit(cuMemAlloc_v2(&pointer, 512) == fake::success ? 98 : 0);
  }
  churn(n[0], 2);
  return wait_for(child);
}

/// Parent and child each use CUDA, from after the fork.
int fork_early(const Numbers& n) {
  const pid_t child = fork();
  use_gpu();
  churn(n[0], child == 0 ? 1 : 2);
  return child == 0 ? 0 : wait_for(child);
}

/// Children that come into being at any moment, and load a library: they must not wait for what was going on then.
int fork_often(const Numbers& n) {
  use_gpu();
  // The more there are, the longer somebody is in the loader who looks through them.
  for (const char* const library : {"libm.so.6", "libresolv.so.2", "librt.so.1", "libutil.so.1", "libanl.so.1"})
    dlopen(library, RTLD_NOW);
  int worst = 0;
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    churn(2, i);
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(dlopen("libnone.so.1", RTLD_NOW) == nullptr && cuInit(0) != fake::success ? 0 : 98);
    }
    worst = std::max(worst, wait_for(child));
    if (worst != 0) break;
  }
  return worst;
}

/// Closes what it does not know, as programs do that become daemons, and has files of its own then.
int close_files(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  for (int file = 3; file < 4096; ++file) close(file);
  std::vector<int> own;
  for (std::uint64_t i = 0; i < n[1]; ++i)
    own.push_back(open(("own-" + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < n[0]; ++i) {
      DevicePointer pointer = 0;
      must(cuMemAlloc_v2(&pointer, 512), "cuMemAlloc");
      must(cuMemFree_v2(pointer), "cuMemFree");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
  }
  int strange = 0;
  for (const int file : own) strange += lseek(file, 0, SEEK_END) == 0 ? 0 : 1;
  return strange == 0 ? 0 : 98;
}

/// Threads that are cancelled while they allocate: only where they allow it, and calls to the driver are no such place.
int cancel(const Numbers& n) {
  fake::Context* const context = use_gpu();
  for (std::uint64_t t = 0; t < n[0]; ++t) {
    std::atomic<bool> leave = false;
    struct Work {
      fake::Context* context;
      std::atomic<bool>* leave;
    } work{context, &leave};
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          const Work& its = *static_cast<Work*>(argument);
          cuCtxSetCurrent(its.context);
          for (DevicePointer pointer = 0; !*its.leave; cuMemFree_v2(pointer)) cuMemAlloc_v2(&pointer, 512);
          return nullptr;
        },
        &work);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pthread_cancel(thread);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    leave = true;
    void* result = nullptr;
    pthread_join(thread, &result);
    if (result != nullptr) return 98;
  }
  return 0;
}

/// Ends from a signal's handler that may interrupt anything, also the call that initializes CUDA.
int exit_in_handler(const Numbers& n) {
  std::signal(SIGALRM, [](int) { std::exit(7); });
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = static_cast<suseconds_t>(n[0])}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  use_gpu();
  while (true) pause();
}

int exec(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  // Nobody is told that a program becomes another: what happened in the last 100 ms may not be in its trace.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::string count = std::to_string(n[0]);
  execl("/proc/self/exe", "fake_program", "single", count.c_str(), nullptr);
  return 97;
}

int spawn(const Numbers& n) {
  if (n[2] != 0) use_gpu();
  std::vector<pid_t> children;
  const std::string count = std::to_string(n[1]);
  for (std::uint64_t i = 0; i < n[0]; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("RANK", std::to_string(i).c_str(), 1);
      execl("/proc/self/exe", "fake_program", "single", count.c_str(), nullptr);
      _exit(97);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) worst = std::max(worst, wait_for(child));
  return worst;
}

/// main() returns while other threads are inside calls.
int exit_inside(const Numbers& n) {
  fake::Context* const context = use_gpu();
  std::atomic<std::uint64_t> running{0};
  for (std::uint64_t t = 0; t < n[0]; ++t) {
    std::thread([&running, context, t] {
      cuCtxSetCurrent(context);
      ++running;
      // No ground truth: who stops where is chance.
      for (DevicePointer pointer = 0;; cuMemFree_v2(pointer)) cuMemAlloc_v2(&pointer, 512 * (1 + t));
    }).detach();
  }
  while (running < n[0]) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  return 5;
}

int quick_exit(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  _exit(6);
}

int crash(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  std::raise(SIGSEGV);
  return 97;
}

int endless(const Numbers& n) {
  fake::Context* const context = use_gpu();
  for (std::uint64_t t = 1; t < n[0]; ++t) {
    std::thread([context, t] {
      cuCtxSetCurrent(context);
      churn(~0ULL, t);
    }).detach();
  }
  churn(~0ULL, 0);
  return 97;
}

/// As fast as it goes, without ground truth: what one event costs. Prints nanoseconds of wall time for each of them.
int race(const Numbers& n) {
  fake::Context* const context = use_gpu();
  std::vector<std::thread> workers;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t t = 0; t < n[0]; ++t) {
    workers.emplace_back([&] {
      cuCtxSetCurrent(context);
      for (std::uint64_t i = 0; i < n[1]; ++i) {
        DevicePointer pointer = 0;
        cuMemAlloc_v2(&pointer, 4096);
        cuMemFree_v2(pointer);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  std::printf("ns_per_event %.1f\n", time.count() / static_cast<double>(2 * n[0] * n[1]));
  return 0;
}

__attribute__((noinline)) double ordered_pairs(fake::Stream* stream, std::uint64_t count, std::uint64_t depth) {
  if (depth > 0) {
    const double time = ordered_pairs(stream, count, depth - 1);
    asm volatile("");  // no tail call
    return time;
  }
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    DevicePointer pointer = 0;
    cuMemAllocAsync(&pointer, 4096, stream);
    cuMemFreeAsync(pointer, stream);
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(2 * count);
}

/// The same with the cheapest calls there are, below that many frames; the fastest of several rounds.
int ordered_race(const Numbers& n) {
  use_gpu();
  fake::Stream* stream = nullptr;
  must(cuStreamCreate(&stream, 1), "cuStreamCreate");
  double best = 1e9;
  for (std::uint64_t round = 0; round < n[2]; ++round) {
    best = std::min(best, ordered_pairs(stream, n[0], n[1]));
    must(cuStreamSynchronize(stream), "cuStreamSynchronize");
  }
  std::printf("ns_per_event %.1f\n", best);
  return 0;
}

volatile std::sig_atomic_t caught = 0;

/// Says when it is ready, waits for a signal that it handles, and ends with its number.
int handle_signal(const Numbers&) {
  use_gpu();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, [](int s) { caught = s; });
  Block block;
  allocate(4096, block);
  std::puts("ready");
  std::fflush(stdout);
  while (caught == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  release(block);
  return caught;
}

/// The same without handling it.
int wait_for_signal(const Numbers&) {
  use_gpu();
  Block block;
  allocate(4096, block);
  std::puts("ready");
  std::fflush(stdout);
  while (true) pause();
}

int leak(const Numbers& n) {
  use_gpu();
  churn(n[0], 1, true);
  return 0;
}

int nothing(const Numbers& n) { return static_cast<int>(n[0]); }

int initialize(const Numbers&) {
  use_gpu();
  return 0;
}

struct Mode {
  const char* name;
  int (*run)(const Numbers&);
  Numbers defaults;
  const char* what;
};

const std::array modes{
    Mode{"single", single, {1000}, "COUNT: allocations and frees in one thread"},
    Mode{"threads", threads, {8, 500}, "THREADS COUNT: threads that free what others allocated"},
    Mode{"short-threads", short_threads, {10'000}, "THREADS: one after the other"},
    Mode{"nested", nested, {20}, "DEPTH: an allocation below that many calls"},
    Mode{"failures", failures, {}, "requests that can't be met, frees of nothing"},
    Mode{"kinds", kinds, {}, "pitched, managed, page-locked, registered, array"},
    Mode{"pools", pools, {300}, "COUNT: stream-ordered allocations in two pools"},
    Mode{"vmm", vmm, {}, "one range, mapped and unmapped piece by piece"},
    Mode{"capture", capture, {}, "allocation nodes of a captured graph"},
    Mode{"contexts", contexts, {}, "a context destroyed with what it holds"},
    Mode{"devices", devices, {300}, "COUNT: memory of two devices, each used from the other"},
    Mode{"ipc", open_of_another, {4}, "MIB: one process opens what another has"},
    Mode{"fork-late", fork_late, {100}, "COUNT: fork after CUDA was used"},
    Mode{"fork-early", fork_early, {100}, "COUNT: fork before CUDA is used, by both"},
    Mode{"fork-often", fork_often, {100}, "COUNT: forks whose children load a library"},
    Mode{"close-files", close_files, {100, 8}, "COUNT FILES: closes all files that it does not know, opens its own"},
    Mode{"cancel", cancel, {20}, "THREADS: cancelled while they allocate"},
    Mode{"exit-in-handler", exit_in_handler, {1000}, "MICROSECONDS: a signal's handler ends it then; exit code 7"},
    Mode{"exec", exec, {100}, "COUNT: becomes `single` afterwards"},
    Mode{"spawn", spawn, {3, 100, 0}, "CHILDREN COUNT USES: processes with RANK set, of one that may use CUDA too"},
    Mode{"exit-inside", exit_inside, {4}, "THREADS: main returns while they allocate; exit code 5"},
    Mode{"quick-exit", quick_exit, {100}, "COUNT: then _exit(6)"},
    Mode{"crash", crash, {100}, "COUNT: then SIGSEGV"},
    Mode{"endless", endless, {2}, "THREADS: until killed"},
    Mode{"race", race, {1, 100'000}, "THREADS COUNT: as fast as it goes, prints ns_per_event"},
    Mode{"ordered-race",
         ordered_race,
         {2000, 0, 50},
         "COUNT DEPTH ROUNDS: with stream-ordered memory, below DEPTH calls"},
    Mode{"handle-signal", handle_signal, {}, "ends with the number of the signal that it caught"},
    Mode{"wait", wait_for_signal, {}, "for a signal"},
    Mode{"leak", leak, {300}, "COUNT: as single, without freeing the rest"},
    Mode{"initialize", initialize, {}, "cuInit and a context, no memory"},
    Mode{"nothing", nothing, {0}, "CODE: exits with it, without CUDA"},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  for (const Mode& mode : modes) {
    if (name != mode.name) continue;
    Numbers numbers = mode.defaults;
    for (int i = 2; i < argc && i - 2 < static_cast<int>(numbers.size()); ++i)
      numbers[static_cast<std::size_t>(i) - 2] = std::strtoull(argv[i], nullptr, 10);
    return mode.run(numbers);
  }
  for (const Mode& mode : modes) std::fprintf(stderr, "  %-14s %s\n", mode.name, mode.what);
  return 2;
}
