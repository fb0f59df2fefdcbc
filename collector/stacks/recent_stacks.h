// A thread's recent stacks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/stack_tree.h"

namespace memreel::stacks {

/// Maps the words of a stack (see unwind.h) to its key, so that a repeated stack costs one hash and one comparison,
/// however its frames were found. All-zero bytes are the initial state: it may live in fresh mmap memory without being
/// constructed. Used by one thread at a time, with one tree. 1.4 MiB, touched as it fills.
class RecentStacks {
 public:
  class Bucket {
    friend class RecentStacks;
    std::uint64_t hash_ = 0;
  };

  /// Where a stack is stored, if it is.
  static Bucket bucket_of(std::span<const std::uint64_t> words) {
    Bucket bucket;
    bucket.hash_ = hash_of(words);
    return bucket;
  }

  /// The key stored for the same words, or none.
  StackKey find(Bucket bucket, std::span<const std::uint64_t> words) const {
    const Entry& entry = entries_[bucket.hash_ % entries_.size()];
    if (entry.hash != bucket.hash_) return StackKey::none;
    return std::ranges::equal(words, std::span(words_).subspan(entry.begin, entry.size)) ? entry.key : StackKey::none;
  }

  /// Replaces another entry if needed. Starts over when the word storage is full.
  void put(Bucket bucket, std::span<const std::uint64_t> words, StackKey key) {
    if (words.size() > words_.size()) return;
    if (words.size() > words_.size() - used_) {
      entries_.fill({});
      used_ = 0;
    }
    std::copy(words.begin(), words.end(), words_.begin() + used_);
    entries_[bucket.hash_ % entries_.size()] = {bucket.hash_, used_, static_cast<std::uint32_t>(words.size()), key};
    used_ += static_cast<std::uint32_t>(words.size());
  }

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint32_t begin, size;  // of its words in `words_`
    StackKey key;
  };

  /// Two interleaved chains: a multiplication takes several cycles, and the next one would wait for it.
  static std::uint64_t hash_of(std::span<const std::uint64_t> words) {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15, other_odd = 0xD6E8FEB86659FD93;
    std::uint64_t a = words.size(), b = odd;
    std::size_t i = 0;
    for (; i + 1 < words.size(); i += 2) {
      a = (std::rotl(a, 27) ^ words[i]) * odd;
      b = (std::rotl(b, 29) ^ words[i + 1]) * other_odd;
    }
    if (i < words.size()) a = (std::rotl(a, 27) ^ words[i]) * odd;
    // Multiplication only carries bits upwards; folding mixes the upper half into the lower.
    const std::uint64_t mixed = (a ^ a >> 32U) * odd + std::rotl(b, 32) * odd;
    return mixed ^ mixed >> 32U;
  }

  std::array<Entry, 1U << 14U> entries_;  // a large model's step has a few thousand
  std::array<std::uint64_t, 1U << 17U> words_;
  std::uint32_t used_;  // of the words
};

}  // namespace memreel::stacks
