// SPDX-License-Identifier: Apache-2.0
// Work on several cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace memreel {

/// Calls `work(i)` for each i below `count`, on up to `threads` threads (0: one per core). What runs out of memory
/// beside the others is called again when they are done. Returns false if one of them ran out of memory alone, too; the
/// others were completed.
template <class Work>
[[nodiscard]] bool in_parallel(std::size_t count, unsigned threads, Work work) {
  std::atomic<std::size_t> next = 0;
  std::vector<char> starved(count);
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (const std::bad_alloc&) {
        starved[i] = 1;
      }
    }
  };
  const std::size_t cores = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> workers;
    try {
      for (std::size_t i = 1; i < std::min(cores, count); ++i) workers.emplace_back(take);
    } catch (const std::system_error&) {
      // A limit on threads or memory: fewer do it, too.
    }
    take();
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (starved[i] == 0) continue;
    try {
      work(i);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  return true;
}

}  // namespace memreel
