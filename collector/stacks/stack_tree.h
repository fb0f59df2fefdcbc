// Every stack that the program was seen in, each once, as one tree in memory that only grows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"

namespace memreel::stacks {

/// A stack: the node of its innermost frame in a StackTree. The node of a caller has a smaller key than those it
/// called.
enum class StackKey : std::uint32_t { none = 0 };

/// Any thread may insert at any time, without locks, system calls or allocation. Reading a node is safe for whoever got
/// its key from the inserting thread by a synchronised way (the agent's rings are one).
class StackTree {  // NOLINT(clang-analyzer-optin.performance.Padding): the counter has a cache line of its own
 public:
  static constexpr std::uint32_t default_capacity = 1U << 20U;

  /// Takes address space for `capacity` nodes (up to 2^31), about 24 bytes each, of which pages are used as the tree
  /// fills. When the system refuses, the tree is full from the beginning.
  explicit StackTree(std::uint32_t capacity = default_capacity);
  ~StackTree();
  StackTree(const StackTree&) = delete;
  StackTree& operator=(const StackTree&) = delete;

  /// The key of a stack; equal stacks have equal keys, whoever inserted them. None for an empty stack, and when there
  /// is no room for its frames, which is counted. Every frame is looked for: RecentStacks is there to ask less often.
  StackKey insert(std::span<const FrameKey> innermost_first);

  struct Node {
    FrameKey frame;
    StackKey caller = StackKey::none;
  };
  /// `key` is not none and came from insert(), or is the caller of one that did.
  Node operator[](StackKey key) const;

  /// How many keys were given out; they are 1 to size(). A few may never be used, their frame is none.
  std::uint32_t size() const;

  /// How many insertions found no room.
  std::uint64_t refused() const;

 private:
  StackKey child(StackKey caller, FrameKey frame);

  std::byte* memory_ = nullptr;
  std::size_t memory_size_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t slot_mask_ = 0;
  Node* nodes_ = nullptr;                        // by key; the first is not used
  std::atomic<std::uint32_t>* slots_ = nullptr;  // hash table of keys, open addressing; 0: empty
  alignas(64) std::atomic<std::uint32_t> size_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

}  // namespace memreel::stacks
