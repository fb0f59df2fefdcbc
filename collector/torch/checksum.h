// Whether all of PyTorch's reports were recorded.
#pragma once

#include <cstdint>

namespace memreel::torch {

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
