// Work on several cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <thread>
#include <vector>

namespace memreel {

/// Calls `work(i)` once for each i below `count`, on up to `threads` threads (0: one per core). Returns false if one of
/// them ran out of memory; the others were completed.
template <class Work>
[[nodiscard]] bool in_parallel(std::size_t count, unsigned threads, Work work) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> out_of_memory = false;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (const std::bad_alloc&) {
        out_of_memory = true;
      }
    }
  };
  const std::size_t cores = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 1; i < std::min(cores, count); ++i) workers.emplace_back(take);
    take();
  }
  return !out_of_memory;
}

}  // namespace memreel
