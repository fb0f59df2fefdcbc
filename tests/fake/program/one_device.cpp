// SPDX-License-Identifier: Apache-2.0
// Modes that allocate on one device.
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake/program/logged_calls.h"
#include "tests/fake/program/modes.h"

namespace fake_program {

int single(const Numbers& n) {
  use_gpu();
  churn(n[0], 1);
  return 0;
}

/// Threads that free what other threads allocated: an address freed by one thread is reused by the next.
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

namespace {

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

}  // namespace

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
  // No ground truth: none of this changes what is allocated.
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

/// Grows and shrinks one range like PyTorch's expandable segments, releasing the handle right after mapping.
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
  // Retained: unmapping does not free its memory.
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

/// Capturing is not an allocation; the launch is.
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

int leak(const Numbers& n) {
  use_gpu();
  churn(n[0], 1, true);
  return 0;
}

int initialize(const Numbers&) {
  use_gpu();
  return 0;
}

}  // namespace fake_program
