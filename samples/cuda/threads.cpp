// SPDX-License-Identifier: Apache-2.0
// Eight threads allocate, hand buffers to each other and free what others allocated.
//
//   memreel record ./threads && memreel report --by thread memreel-*.reel
//
// The GPU hands memory freed by one thread to another at once: a recording with events out of order would show two
// owners of one address.
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "ground_truth.h"

namespace {

struct Buffer {
  void* pointer = nullptr;
  std::size_t bytes = 0;
};

Buffer allocate(std::size_t bytes) {
  Buffer buffer{.bytes = bytes};
  check(cudaMalloc(&buffer.pointer, bytes), "cudaMalloc");
  truth::allocated("linear", buffer.pointer, bytes);
  return buffer;
}

void release(const Buffer& buffer) {
  truth::freeing("linear", buffer.pointer, buffer.bytes);
  check(cudaFree(buffer.pointer), "cudaFree");
}

/// A queue of buffers for any thread to take.
class Exchange {
 public:
  /// Puts one in; returns another one when there are enough.
  Buffer swap(const Buffer& buffer, std::mt19937& random) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(buffer);
    if (waiting_.size() < 32) return {};
    std::swap(waiting_[random() % waiting_.size()], waiting_.back());
    const Buffer taken = waiting_.back();
    waiting_.pop_back();
    return taken;
  }
  std::vector<Buffer> rest() { return std::move(waiting_); }

 private:
  std::mutex mutex_;
  std::vector<Buffer> waiting_;
};

}  // namespace

int main() {
  check(cudaFree(nullptr), "the first call, which makes the context");
  Exchange exchange;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&exchange, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        const Buffer taken = exchange.swap(allocate(512 * (1 + random() % 4096)), random);
        if (taken.pointer != nullptr) release(taken);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Buffer& buffer : exchange.rest()) release(buffer);
  std::printf("1600 buffers, allocated and freed by 8 threads\n");
}
