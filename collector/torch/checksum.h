// Whether all of PyTorch's reports were recorded.
#pragma once

#include <cstdint>

namespace memreel::torch {

/// Compares a running sum of the recorded sizes with the allocator's own count of its allocated bytes.
class Checksum {
 public:
  /// For one device, in order: `change` is the event's size, negative for a free; `total` is the allocator's allocated
  /// bytes after it. False if events are missing before this one. The first event sets the initial value.
  bool agrees(std::int64_t change, std::uint64_t total) {
    const bool same = !begun_ || total_ + static_cast<std::uint64_t>(change) == total;
    if (!begun_) before_ = total - static_cast<std::uint64_t>(change);
    begun_ = true;
    total_ = total;
    return same;
  }

  /// Bytes allocated before the first event.
  std::uint64_t before() const { return before_; }

 private:
  bool begun_ = false;
  std::uint64_t total_ = 0, before_ = 0;
};

}  // namespace memreel::torch
