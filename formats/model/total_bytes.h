// Sums of sizes from untrusted files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "formats/model/units.h"

namespace memreel {

/// Saturating: neither wraps around nor falls below zero, but stays at the largest number, or at zero.
class TotalBytes {
 public:
  constexpr TotalBytes() = default;
  constexpr explicit TotalBytes(Bytes bytes) : bytes_(bytes) {}

  constexpr Bytes bytes() const { return bytes_; }
  constexpr TotalBytes& operator+=(Bytes more) {
    constexpr Bytes most{std::numeric_limits<std::uint64_t>::max()};
    bytes_ += std::min(more, most - bytes_);
    return *this;
  }
  constexpr TotalBytes& operator-=(Bytes less) {
    bytes_ -= std::min(less, bytes_);
    return *this;
  }

  friend constexpr TotalBytes operator+(TotalBytes total, Bytes more) { return total += more; }

 private:
  Bytes bytes_;
};

}  // namespace memreel
