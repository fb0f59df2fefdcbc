// SPDX-License-Identifier: Apache-2.0
// C++ programs with known leaks, recorded on the fake GPU and judged.
//
//   leaking_program PROGRAM       each_step, returned, slow, bounded_cache or unmarked
//
// All memory comes from one function of the program, as is common, so only the callers identify the leak. Ground truth
// lines say what leaks ("leak"); each leak is made on the line with the comment "leaks". Nothing is freed at the end
// but by `returned`.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collector/include/memreel/memreel.h"
#include "samples/cuda/ground_truth.h"
#include "tests/fake/cuda_functions.h"

namespace {

using fake::DevicePointer, fake::Status;

constexpr std::size_t kib = 1U << 10U, mib = 1U << 20U;

void must(Status status, const char* what) {
  if (status == fake::success) return;
  std::fprintf(stderr, "leaking_program: %s failed: %d\n", what, status);
  std::_Exit(99);
}

DevicePointer allocate(std::size_t bytes) {
  DevicePointer pointer = 0;
  must(cuMemAlloc_v2(&pointer, bytes), "cuMemAlloc");
  return pointer;
}
void release(DevicePointer pointer) { must(cuMemFree_v2(pointer), "cuMemFree"); }
void leaked(DevicePointer pointer, std::size_t bytes) { truth::say("leak", "linear", pointer, bytes); }

class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : pointer_(allocate(bytes)) {}
  static Buffer owning(DevicePointer pointer) {
    Buffer buffer;
    buffer.pointer_ = pointer;
    return buffer;
  }
  Buffer(Buffer&& other) noexcept : pointer_(std::exchange(other.pointer_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (pointer_ != 0) release(pointer_);
  }

 private:
  Buffer() = default;

  DevicePointer pointer_ = 0;
};

/// Persistent weights, and the same work in each step.
struct Model {
  std::vector<DevicePointer> weights;
  Model() {
    for (const std::size_t size : {32 * mib, 8 * mib, 64 * kib}) weights.push_back(allocate(size));
  }
  void work(std::size_t batch) const {
    const Buffer input(batch * 4 * kib);
    std::vector<Buffer> activations;
    for (int layer = 0; layer < 6; ++layer) {
      activations.emplace_back(batch * 16 * kib);
      const Buffer scratch(mib);
    }
  }
};

/// Results that are copied to the host but never freed on the device.
void each_step() {
  const Model model;
  for (std::size_t step = 0; step < 60; ++step) {
    model.work(8 + step % 3);
    const std::size_t bytes = (60 + step % 5) * kib;
    leaked(allocate(bytes), bytes);  // leaks
    memreel_step();
  }
}

/// Results that nobody needs, which a vector keeps until the loop's function returns.
void returned() {
  const Model model;
  std::vector<Buffer> kept;
  for (std::size_t step = 0; step < 60; ++step) {
    model.work(8 + step % 3);
    const std::size_t bytes = (60 + step % 5) * kib;
    const DevicePointer result = allocate(bytes);  // leaks
    leaked(result, bytes);
    kept.emplace_back(Buffer::owning(result));
    memreel_step();
  }
}

/// 4 KiB now and then, among thousands of short-lived requests of all sizes.
void slow() {
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  const Model model;
  std::vector<Buffer> open;
  for (std::size_t step = 0; step < 300; ++step) {
    for (int request = 0; request < 12; ++request) {
      open.emplace_back(1 + random() % (256 * kib));
      while (open.size() > 30 || (!open.empty() && random() % 3 == 0)) {
        std::swap(open[random() % open.size()], open.back());
        open.pop_back();
      }
    }
    if (step % 20 == 10) {
      leaked(allocate(4 * kib), 4 * kib);  // leaks
    }
    memreel_step();
  }
  std::exit(0);
}

/// Keeps at most 16 results and evicts the least recently used.
void bounded_cache() {
  std::mt19937_64 random(2);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
  const Model model;
  std::map<std::uint64_t, std::pair<std::size_t, DevicePointer>> cache;  // key -> step of last use, result
  for (std::size_t step = 0; step < 80; ++step) {
    model.work(8);
    for (int lookup = 0; lookup < 3; ++lookup) {
      const std::uint64_t key = random() % 12 * (random() % 12);
      const auto [entry, is_new] = cache.try_emplace(key, step, 0);
      if (is_new) entry->second.second = allocate(256 * kib + key * kib);
      entry->second.first = step;
      if (cache.size() <= 16) continue;
      auto oldest = cache.begin();
      for (auto it = cache.begin(); it != cache.end(); ++it)
        if (it->second.first < oldest->second.first) oldest = it;
      release(oldest->second.second);
      cache.erase(oldest);
    }
    memreel_step();
  }
  std::exit(0);
}

/// An error path, taken in every third batch, that does not free its buffer. No step is marked.
void unmarked() {
  const Model model;
  for (std::size_t batch = 0; batch < 60; ++batch) {
    model.work(16);
    const DevicePointer staged = allocate(96 * kib);  // leaks
    if (batch % 3 == 2)
      leaked(staged, 96 * kib);
    else
      release(staged);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> programs{{"each_step", each_step},
                                                   {"returned", returned},
                                                   {"slow", slow},
                                                   {"bounded_cache", bounded_cache},
                                                   {"unmarked", unmarked}};
  const auto program = programs.find(argc > 1 ? argv[1] : "");
  if (program == programs.end()) return 2;
  must(cuInit(0), "cuInit");
  fake::Context* context = nullptr;
  must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  program->second();
}
