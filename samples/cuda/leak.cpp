// SPDX-License-Identifier: Apache-2.0
// Three ways to leak GPU memory, and one that only looks like it.
//
//   memreel record ./leak && memreel report --leaks memreel-*.reel
//
// Each of 20 steps loads a batch, processes it, and leaks something:
//   early_return   the buffer of a rejected batch is not freed: 3 MiB every fourth step
//   overwritten    a pointer gets a new buffer while it still holds the old one: 2.5 MiB every step
//   endless_cache  results are cached for batches that never come back: a little more every step
//   weights        32 MiB that are meant to live as long as the program: no leak
#include <cstdint>
#include <map>

#include "check.h"
#include "ground_truth.h"

namespace {

constexpr std::size_t kib = 1 << 10, mib = 1 << 20;

void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, bytes), "cudaMalloc");
  truth::allocated("linear", pointer, bytes);
  return pointer;
}

void release(void* pointer, std::size_t bytes) {
  truth::freeing("linear", pointer, bytes);
  check(cudaFree(pointer), "cudaFree");
}

bool early_return(int step) {
  void* const batch = allocate(3 * mib);
  if (step % 4 == 3) return false;  // the batch is rejected, and its buffer never freed
  release(batch, 3 * mib);
  return true;
}

struct Workspace {
  void* buffer = nullptr;
  void resize(std::size_t bytes) { buffer = allocate(bytes); }  // leaks the previous buffer
};

struct Cache {
  std::map<int, void*> results;
  void* of(int batch) {
    auto [entry, is_new] = results.try_emplace(batch);
    if (is_new) entry->second = allocate(static_cast<std::size_t>(64 + batch) * kib);
    return entry->second;
  }
};

}  // namespace

int main() {
  void* const weights = allocate(32 * mib);
  Workspace overwritten;
  Cache endless_cache;
  int refused = 0;
  for (int step = 0; step < 20; ++step) {
    if (!early_return(step)) ++refused;
    overwritten.resize(5 * mib / 2);
    endless_cache.of(step);  // every batch has a new number, so there is never a hit
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::printf("leaked: %d batches, %d workspaces, %zu results\n", refused, 19, endless_cache.results.size());
  release(weights, 32 * mib);
}
