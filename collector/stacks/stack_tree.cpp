// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/stack_tree.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace memreel::stacks {

std::size_t merge(std::span<const FrameKey> native, std::span<const PythonFrame> python,
                  std::span<const AddressRange> evaluator, AddressRange plumbing, std::span<FrameKey> merged) {
  std::size_t count = 0, next = 0;
  const auto put = [&](FrameKey frame) {
    if (count < merged.size()) merged[count++] = frame;
  };
  for (const FrameKey frame : native) {
    const bool evaluates = std::any_of(evaluator.begin(), evaluator.end(),
                                       [&](const AddressRange& range) { return range.contains(frame.code_address()); });
    if (!evaluates || next == python.size()) {
      if (!plumbing.contains(frame.code_address())) put(frame);
      continue;
    }
    while (next < python.size()) {
      put(python[next].key);
      if (python[next++].is_entry) break;
    }
  }
  for (; next < python.size(); ++next) put(python[next].key);
  return count;
}

namespace {

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

/// Multiplication only carries bits upwards; folding mixes the upper half into the lower.
constexpr std::uint64_t fold(std::uint64_t x) { return x ^ (x >> 32U); }

std::uint64_t hash_of(StackKey caller, FrameKey frame) {
  return fold((fold(frame.bits * golden) ^ static_cast<std::uint32_t>(caller)) * golden);
}

}  // namespace

StackTree::StackTree(std::uint32_t capacity) {
  const std::uint64_t slots = std::bit_ceil(2 * std::uint64_t{capacity});
  const std::size_t node_bytes = (std::size_t{capacity} + 1) * sizeof(Node);
  const std::size_t size = node_bytes + slots * sizeof(std::uint32_t);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  memory_size_ = size;
  capacity_ = capacity;
  slot_mask_ = static_cast<std::uint32_t>(slots - 1);
  nodes_ = static_cast<Node*>(memory);
  slots_ = static_cast<std::atomic<std::uint32_t>*>(static_cast<void*>(memory_ + node_bytes));
}

StackTree::~StackTree() {
  if (memory_ != nullptr) munmap(memory_, memory_size_);
}

StackKey StackTree::insert(std::span<const FrameKey> innermost_first) {
  StackKey key = StackKey::none;
  for (std::size_t i = innermost_first.size(); i-- > 0;) {
    key = child(key, innermost_first[i]);
    if (key == StackKey::none) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return key;
    }
  }
  return key;
}

/// The node of `frame` called by `caller`, created if necessary; none if the tree is full.
StackKey StackTree::child(StackKey caller, FrameKey frame) {
  if (capacity_ == 0) return StackKey::none;
  std::uint32_t made = 0;
  for (std::uint64_t place = hash_of(caller, frame);; ++place) {
    std::atomic<std::uint32_t>& slot = slots_[place & slot_mask_];
    std::uint32_t key = slot.load(std::memory_order_acquire);
    if (key == 0) {
      if (made == 0) {
        // Checked before incrementing, so that a full tree's count stays constant.
        if (size_.load(std::memory_order_relaxed) >= capacity_) return StackKey::none;
        made = size_.fetch_add(1, std::memory_order_relaxed) + 1;
        if (made > capacity_) return StackKey::none;
        nodes_[made] = {frame, caller};
      }
      if (slot.compare_exchange_strong(key, made, std::memory_order_release, std::memory_order_acquire))
        return StackKey{made};
    }
    // Here `key` is the node in the slot, possibly just stored by another thread.
    const Node& node = nodes_[key];
    if (node.frame == frame && node.caller == caller) {
      if (made != 0) nodes_[made] = {};
      return StackKey{key};
    }
  }
}

StackTree::Node StackTree::operator[](StackKey key) const { return nodes_[static_cast<std::uint32_t>(key)]; }

std::uint32_t StackTree::size() const { return std::min(size_.load(std::memory_order_relaxed), capacity_); }

std::uint64_t StackTree::refused() const { return refused_.load(std::memory_order_relaxed); }

}  // namespace memreel::stacks
