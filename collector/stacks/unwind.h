// The native stack of the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace memreel::stacks {

/// The part of memory that a thread's own stack may use. All zero: not yet known.
struct StackBounds {
  std::uintptr_t low = 0, high = 0;
};

/// One for the process, made when the agent starts, never destroyed while threads may capture. Any thread may unwind at
/// any time: no lock that another thread may hold, no allocation, no system call, except on a thread's first capture
/// (its bounds are asked for) and on a stack that is not its thread's own (see unwind).
class Unwinder {
 public:
  Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  /// Return addresses of the calling thread, innermost first, as many as fit: the first is where the caller of unwind()
  /// goes on. What a signal interrupted appears as the address after its first byte, so that the address before each
  /// lies in the code that it stands for. Stops, without harm, where the stack can't be read or understood. `bounds`
  /// belongs to the calling thread and is kept between its calls.
  std::size_t unwind(StackBounds& bounds, std::span<std::uintptr_t> addresses) const;

  /// A module was unloaded: code at known addresses may be another's now. Called by one thread at a time.
  void forget();
};

}  // namespace memreel::stacks
