// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation: the device's default pool, and a pool that keeps its memory.
//
//   memreel record ./pools && memreel report memreel-*.reel
//
// A request server handles requests on four streams. Activations come from the device's pool, which releases
// everything at each synchronization; results come from a pool with a release threshold, which keeps it for the next
// round.
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "ground_truth.h"

namespace {

constexpr std::size_t kib = 1 << 10;

struct Buffer {
  void* pointer = nullptr;
  std::size_t bytes = 0;
};

void release(const Buffer& buffer, cudaStream_t stream) {
  truth::freeing("ordered", buffer.pointer, buffer.bytes);
  check(cudaFreeAsync(buffer.pointer, stream), "cudaFreeAsync");
}

}  // namespace

int main() {
  std::array<cudaStream_t, 4> streams{};
  for (cudaStream_t& stream : streams) check(cudaStreamCreate(&stream), "cudaStreamCreate");

  cudaMemPool_t results_pool{};
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  check(cudaMemPoolCreate(&results_pool, &properties), "cudaMemPoolCreate");
  std::uint64_t keep = ~std::uint64_t{0};
  check(cudaMemPoolSetAttribute(results_pool, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");

  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    for (cudaStream_t stream : streams) {
      Buffer activations{.bytes = (100 + random() % 8000) * kib}, result{.bytes = (10 + random() % 500) * kib};
      check(cudaMallocAsync(&activations.pointer, activations.bytes, stream), "cudaMallocAsync");
      truth::allocated("ordered", activations.pointer, activations.bytes);
      check(cudaMallocFromPoolAsync(&result.pointer, result.bytes, results_pool, stream), "cudaMallocFromPoolAsync");
      truth::allocated("ordered", result.pointer, result.bytes);
      release(activations, stream);
      release(result, stream);
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  std::uint64_t reserved = 0;
  check(cudaMemPoolGetAttribute(results_pool, cudaMemPoolAttrReservedMemCurrent, &reserved), "cudaMemPoolGetAttribute");
  std::printf("the pool of results still holds %llu bytes\n", static_cast<unsigned long long>(reserved));
  check(cudaMemPoolDestroy(results_pool), "cudaMemPoolDestroy");
  for (cudaStream_t stream : streams) check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}
