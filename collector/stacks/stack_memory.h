// Reading the stack of the calling thread without ever touching memory that is not there.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace memreel::stacks {

/// The part of memory that a thread's own stack may use. All zero: not yet known.
struct StackBounds {
  std::uintptr_t low = 0, high = 0;
  pthread_t thread = {};

  bool contains(std::uintptr_t address) const { return address - low < high - low; }
};

/// Those of the calling thread's own stack, whatever stack it is on now. On a thread's first call it may allocate: the
/// C library is asked. A range that holds nothing when they can't be told.
StackBounds own_stack_bounds();

/// Whether the word that holds the byte at `address` can be read. One system call.
bool is_readable(std::uintptr_t address);

/// What can be read from the stack that `stack_pointer` points into. On the thread's own stack everything from there
/// on; on any other (a fibre's, a signal handler's) page by page, as the kernel admits them.
class StackMemory {
 public:
  StackMemory(const StackBounds& own, std::uintptr_t stack_pointer)
      : own_(own), low_(stack_pointer), high_(own.contains(stack_pointer) ? own.high : stack_pointer) {}

  /// Another stack is gone on with.
  void move_to(std::uintptr_t stack_pointer) { *this = StackMemory(own_, stack_pointer); }

  /// The word at an address. False when it is not on the stack, not readable or not aligned.
  bool read(std::uintptr_t address, std::uintptr_t& word) {
    if ((address & (sizeof word - 1)) != 0) return false;
    if (address - low_ >= high_ - low_ && !admit_page(address)) return false;
    word = load(address);
    return true;
  }

  /// Whether these bytes are known to be readable: nobody has to be asked.
  bool covers(std::uintptr_t address, std::size_t size) const {
    return address - low_ <= high_ - low_ && size <= high_ - address;
  }
  /// A word of those from an aligned address on, which covers() said yes to.
  static std::uintptr_t covered(std::uintptr_t address, std::size_t index);

 private:
  static std::uintptr_t load(std::uintptr_t address);
  bool admit_page(std::uintptr_t address);

  StackBounds own_;
  std::uintptr_t low_, high_;  // readable
};

/// Of other frames, which a sanitizer takes for out of bounds.
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
