// SPDX-License-Identifier: Apache-2.0
// Reading the calling thread's stack without ever touching unmapped memory.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace memreel::stacks {

/// The memory range of a thread's own stack, as far down as it was used so far. All zero: unknown.
struct StackBounds {
  std::uintptr_t low = 0, high = 0;
  pthread_t thread = {};
  bool ends = false;  // below is its guard page

  bool contains(std::uintptr_t address) const { return address - low < high - low; }
  /// Whether they may be used for a walk from `address` in the calling thread.
  bool are_for(std::uintptr_t address) const { return thread == pthread_self() && (ends || contains(address)); }
};

/// The bounds of the calling thread's own stack, down to `address` if that is on it, given what is `known` of them.
/// Asks nothing of the C library, which would take locks and allocate: a signal handler may have interrupted it there.
StackBounds own_stack_bounds(const StackBounds& known, std::uintptr_t address);

/// Whether the word containing the byte at `address` can be read. One system call.
bool is_readable(std::uintptr_t address);

/// The readable part of the stack that `stack_pointer` points into. On the thread's own stack, everything from there
/// on; on any other (a fibre's, a signal handler's) page by page, as the kernel confirms.
class StackMemory {
 public:
  StackMemory(const StackBounds& own, std::uintptr_t stack_pointer)
      : own_(own), low_(stack_pointer), high_(own.contains(stack_pointer) ? own.high : stack_pointer) {}

  /// Continues on another stack.
  void move_to(std::uintptr_t stack_pointer) { *this = StackMemory(own_, stack_pointer); }

  /// The word at an address. False if it is not on the stack, not readable or not aligned.
  bool read(std::uintptr_t address, std::uintptr_t& word) {
    if ((address & (sizeof word - 1)) != 0) return false;
    if (address - low_ >= high_ - low_ && !admit_page(address)) return false;
    word = load(address);
    return true;
  }

  /// Whether these bytes are known to be readable, without a system call.
  bool covers(std::uintptr_t address, std::size_t size) const {
    return address - low_ <= high_ - low_ && size <= high_ - address;
  }
  /// Word `index` from an aligned address, in a range that covers() confirmed.
  static std::uintptr_t covered(std::uintptr_t address, std::size_t index);

 private:
  static std::uintptr_t load(std::uintptr_t address);
  bool admit_page(std::uintptr_t address);

  StackBounds own_;
  std::uintptr_t low_, high_;  // readable
};

/// Reads other functions' frames, which a sanitizer would report as out of bounds.
__attribute__((no_sanitize("address", "thread", "undefined"))) inline std::uintptr_t StackMemory::load(
    std::uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr,clang-analyzer-core.NullDereference): an address that was asked about
  return *reinterpret_cast<const volatile std::uintptr_t*>(address);
}

__attribute__((no_sanitize("address", "thread", "undefined"))) inline std::uintptr_t StackMemory::covered(
    std::uintptr_t address, std::size_t index) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are what this is about
  return reinterpret_cast<const std::uintptr_t*>(address)[index];
}

}  // namespace memreel::stacks
