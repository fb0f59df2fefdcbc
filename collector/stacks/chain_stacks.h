// A thread's recent stacks, by their Python frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collector/stacks/stack_tree.h"

namespace memreel::stacks {

/// Maps the number of the Python frames (python/frame_chain.h) and that of the native walk
/// (RecentWalks::Walk::number()) to stack keys. A program's lines and modules change from event to event, while its
/// native walks repeat; so entries are indexed by the former, one cache line each, which can be prefetched while the
/// native frames are still being walked.
///
/// All-zero bytes are the initial state: it may live in fresh mmap memory without being constructed. Used by one thread
/// at a time. 256 KiB, touched as it fills.
class ChainStacks {
 public:
  /// Prefetches the entry for these frames.
  void expect(std::uint64_t chain) const { __builtin_prefetch(&line_of(chain)); }

  /// The stack stored for both numbers, or none.
  StackKey find(std::uint64_t chain, std::uint64_t walk) const {
    const Line& line = line_of(chain);
    std::uint32_t found = 0;
    // Branchless: the match changes from event to event.
    for (std::size_t i = 0; i < line.walks.size(); ++i)
      found |= (0U - std::uint32_t{line.walks[i] == walk}) & static_cast<std::uint32_t>(line.keys[i]);
    return line.chain == chain ? StackKey{found} : StackKey::none;
  }

  /// Replaces the oldest entry of the same Python frames, or all entries there of other frames. `walk` is not 0.
  void put(std::uint64_t chain, std::uint64_t walk, StackKey key) {
    Line& line = lines_[index_of(chain)];
    if (line.chain != chain) line = {.chain = chain};
    const std::size_t place = line.next++ % line.walks.size();
    line.walks[place] = walk;
    line.keys[place] = key;
  }

 private:
  struct alignas(64) Line {
    std::uint64_t chain;
    std::array<std::uint64_t, 4> walks;
    std::array<StackKey, 4> keys;
    std::uint32_t next;
  };
  static_assert(sizeof(Line) == 64);

  static std::size_t index_of(std::uint64_t chain) { return chain * 0x9E3779B97F4A7C15 >> (64U - index_bits); }
  const Line& line_of(std::uint64_t chain) const { return lines_[index_of(chain)]; }

  static constexpr unsigned index_bits = 12;  // a large model's step has a few thousand chains

  std::array<Line, std::size_t{1} << index_bits> lines_;
};

}  // namespace memreel::stacks
