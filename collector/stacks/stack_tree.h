// Every stack seen in the program, each once, as a tree in grow-only memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/frame_key.h"

namespace memreel::stacks {

/// A stack: the node of its innermost frame in a StackTree. A caller's node has a smaller key than its callees'.
enum class StackKey : std::uint32_t { none = 0 };

/// Any thread may insert at any time, without locks, system calls or allocation. A thread may read a node if it
/// received the key from the inserting thread with synchronisation (such as the agent's rings).
class StackTree {  // NOLINT(clang-analyzer-optin.performance.Padding): the counter has a cache line of its own
 public:
  static constexpr std::uint32_t default_capacity = 1U << 20U;

  /// Reserves address space for `capacity` nodes (up to 2^31), about 24 bytes each; pages are committed as the tree
  /// fills. If the system refuses, the tree behaves as full.
  explicit StackTree(std::uint32_t capacity = default_capacity);
  ~StackTree();
  StackTree(const StackTree&) = delete;
  StackTree& operator=(const StackTree&) = delete;

  /// The key of a stack; equal stacks have equal keys, regardless of the thread. None for an empty stack, and if there
  /// is no room for its frames, which is counted. Looks up every frame: RecentStacks exists to call this less often.
  StackKey insert(std::span<const FrameKey> innermost_first);

  struct Node {
    FrameKey frame;
    StackKey caller = StackKey::none;
  };
  /// `key` is not none and came from insert(), or is the caller of such a key.
  Node operator[](StackKey key) const;

  /// The number of keys assigned, which are 1 to size(). A few may never be used; their frame is none.
  std::uint32_t size() const;

  /// How many insertions did not fit.
  std::uint64_t refused() const;

 private:
  StackKey child(StackKey caller, FrameKey frame);

  std::byte* memory_ = nullptr;
  std::size_t memory_size_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t slot_mask_ = 0;
  Node* nodes_ = nullptr;                        // by key; the first is unused
  std::atomic<std::uint32_t>* slots_ = nullptr;  // hash table of keys, open addressing; 0: empty
  alignas(64) std::atomic<std::uint32_t> size_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

}  // namespace memreel::stacks
