// SPDX-License-Identifier: Apache-2.0
// Out of memory with half of the memory free.
//
//   memreel record ./fragmentation && memreel report --oom memreel-*.reel
//
// The GPU hands out memory in pages of 2 MiB. Two requests of 1 MiB share a page; when one of each pair is freed, half
// of the memory is free but no page is. A ballast stands for the rest of the program, so that the GPU fills up quickly.
#include <cstdint>
#include <vector>

#include "check.h"
#include "ground_truth.h"

namespace {

constexpr std::size_t mib = 1 << 20;
constexpr std::size_t room = 256 * mib;  // left by the ballast

/// Returns null when out of memory.
void* try_to_allocate(std::size_t bytes) {
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, bytes) == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the expected error, so that later calls don't fail
    truth::failed("linear", bytes);
    return nullptr;
  }
  truth::allocated("linear", pointer, bytes);
  return pointer;
}

void release(void* pointer, std::size_t bytes) {
  truth::freeing("linear", pointer, bytes);
  check(cudaFree(pointer), "cudaFree");
}

}  // namespace

int main() {
  check(cudaFree(nullptr), "the first call, which makes the context");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::size_t ballast_bytes = free > 2 * room ? free - room : 0;
  void* const ballast = ballast_bytes != 0 ? try_to_allocate(ballast_bytes) : nullptr;

  std::vector<void*> blocks;
  while (void* const block = try_to_allocate(mib)) blocks.push_back(block);
  for (std::size_t i = 0; i < blocks.size(); i += 2) release(blocks[i], mib);

  void* const page = try_to_allocate(2 * mib);
  std::printf("%zu blocks of 1 MiB, every other one freed: %zu MiB are free, and a request for 2 MiB %s\n",
              blocks.size(), (blocks.size() + 1) / 2, page == nullptr ? "fails" : "succeeds");

  if (page != nullptr) release(page, 2 * mib);
  for (std::size_t i = 1; i < blocks.size(); i += 2) release(blocks[i], mib);
  if (ballast != nullptr) release(ballast, ballast_bytes);
  return page == nullptr ? 0 : 1;
}
