// PyTorch tells its profiler of every tensor allocation and free, and calls for that a function of libc10 through the
// dynamic linker, always, whether it is being profiled or not. A library that was preloaded comes before libc10 in the
// search for that function: reporters.cpp defines it, records, and calls libc10's.
//
// A report carries the block's true size (requested size, rounded, and what was not worth splitting off) and the
// allocator's own total of allocated bytes. It comes while the allocator holds its lock for that device, so the order
// of reports is the order of decisions. It does not carry the requested size, the stream, or when the device was done
// with memory that was let go of.
#pragma once

#include <cstdint>

namespace memreel::torch {

/// Finds PyTorch's functions once it is loaded. Called by the writing thread now and then, so that the first report,
/// which comes with a lock held, need not ask the dynamic loader.
void look();

/// A running comparison of what is recorded with the allocator's own count of its allocated bytes.
class Checksum {
 public:
  /// Of one device, in order: `change` is the event's size, negative for a free; `total` what the allocator says it has
  /// allocated after it. False when events are missing before this one. The first event sets the beginning.
  bool agrees(std::int64_t change, std::uint64_t total) {
    const bool same = !begun_ || total_ + static_cast<std::uint64_t>(change) == total;
    if (!begun_) before_ = total - static_cast<std::uint64_t>(change);
    begun_ = true;
    total_ = total;
    return same;
  }

  /// Bytes that were allocated before the first event.
  std::uint64_t before() const { return before_; }

 private:
  bool begun_ = false;
  std::uint64_t total_ = 0, before_ = 0;
};

}  // namespace memreel::torch
