// SPDX-License-Identifier: Apache-2.0
// Every stack seen in the program, each once, as a tree in grow-only memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/stacks/module_table.h"

namespace memreel::stacks {

// A code location on the hot path: one number.

/// A stack frame. Native: the address that its function returns to or resumes at. Python: a position in a code object,
/// both as numbered by the Python frame walker. All zero bits: none.
struct FrameKey {
  std::uint64_t bits = 0;

  static constexpr FrameKey native(std::uintptr_t return_address) { return {return_address}; }

  /// `code` below 2^31: the number of a code object. `position` in it: line or instruction, as the producer chooses.
  static constexpr FrameKey python(std::uint32_t code, std::uint32_t position) {
    return {python_bit | static_cast<std::uint64_t>(code) << 32U | position};
  }

  constexpr bool is_python() const { return (bits & python_bit) != 0; }  // no user-space address has this bit

  /// For a native frame: the address to look up in modules and symbols. It lies within the call instruction: the return
  /// address may belong to another line or, after a call that never returns, to another function.
  constexpr std::uintptr_t code_address() const { return bits - 1; }

  // For a Python frame.
  constexpr std::uint32_t code() const { return static_cast<std::uint32_t>((bits & ~python_bit) >> 32U); }
  constexpr std::uint32_t position() const { return static_cast<std::uint32_t>(bits); }

  friend constexpr bool operator==(FrameKey, FrameKey) = default;

 private:
  static constexpr std::uint64_t python_bit = 1ULL << 63U;
};

// Merges a thread's native frames with the Python frames that its interpreter was running.

struct PythonFrame {
  FrameKey key;
  /// The outermost frame of an evaluator call: native code called it. Since Python 3.11 a Python function called from
  /// Python code runs in its caller's evaluator.
  bool is_entry = true;
};

/// Writes the frames of both to `merged`, innermost first, as many as fit, and returns how many. Each native frame in
/// one of the evaluator's code ranges (_PyEval_EvalFrameDefault: the function, and the cold part that a compiler may
/// have split off) is replaced by the Python frames it ran, up to the next entry. If the native stack ends early, the
/// remaining Python frames follow at its end. Native frames in `plumbing`, the rest of the interpreter's own code, are
/// left out.
std::size_t merge(std::span<const FrameKey> native, std::span<const PythonFrame> python,
                  std::span<const AddressRange> evaluator, AddressRange plumbing, std::span<FrameKey> merged);

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
