// SPDX-License-Identifier: Apache-2.0
// Modes that measure the cost of an event.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/fake/program/logged_calls.h"
#include "tests/fake/program/modes.h"

namespace fake_program {

/// As fast as possible, without ground truth: measures the cost per event. Prints wall time in nanoseconds per event.
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

namespace {

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

}  // namespace

/// The same with the cheapest calls there are, below that many frames; prints the fastest of several rounds.
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

}  // namespace fake_program
