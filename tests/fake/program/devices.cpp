// SPDX-License-Identifier: Apache-2.0
// Modes that use memory of several devices, contexts or processes.
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/fake/program/logged_calls.h"
#include "tests/fake/program/modes.h"

namespace fake_program {

/// Alternates between the memory of two devices: the current context says nothing about the location of a pool, a
/// physical allocation or freed memory. Needs two GPUs.
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

  // The pool is on another device than the stream.
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

/// One process opens the memory of another, from another device where there is one.
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

/// Destroying a context frees its linear memory.
int contexts(const Numbers& n) {
  must(cuInit(0), "cuInit");
  for (std::uint64_t i = 0; i < n[0]; ++i) {
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
  }
  return 0;
}

}  // namespace fake_program
