// The module last seen at each place in memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace memreel::stacks {

/// Notices a module at a place where there was none before, or another one. Any thread, any time, without locks. 8 KiB.
///
/// Holds a thousand modules. One that is evicted counts as new the next time, which must stay rare: the caller then
/// forgets all unwind rules. Hence sets of eight instead of one place each: libraries lie at fixed distances from one
/// another, so two of a program's might share a place in every process and evict each other forever.
class SeenModules {
 public:
  /// Whether the module at `begin` differs from the one last seen there. `identity` distinguishes modules.
  bool is_new(std::uintptr_t begin, std::uint64_t identity) {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
    // The upper half of a word is the place, the lower one the module there. 0: empty.
    const std::uint64_t place = begin * odd >> half, word = place << half | identity * odd >> half | 1U;
    auto& set = sets_[place % sets_.size()];
    for (std::atomic<std::uint64_t>& seen : set) {
      std::uint64_t last = seen.load(std::memory_order_relaxed);
      if (last == 0 && seen.compare_exchange_strong(last, word, std::memory_order_relaxed)) return true;
      if (last >> half == place) return seen.exchange(word, std::memory_order_relaxed) != word;
    }
    set[word / 2 % set.size()].store(word, std::memory_order_relaxed);
    return true;
  }

  void forget() {
    for (auto& set : sets_)
      for (std::atomic<std::uint64_t>& seen : set) seen.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned half = 32;

  std::array<std::array<std::atomic<std::uint64_t>, 8>, 128> sets_{};
};

}  // namespace memreel::stacks
