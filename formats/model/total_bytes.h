// Sums of sizes that a file names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "formats/model/units.h"

namespace memreel {

/// Whatever is added and taken away, it neither begins anew at zero nor falls below it: it stays at the largest number,
/// and at none.
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
