// The offline placement problem, as seen by the planners: every lifetime is known.
//
// Time is cut into sections: a section begins where something is allocated after something was freed. Two buffers share
// a section exactly if they are alive at the same time, and there are at most as many sections as buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/model/units.h"

namespace memreel::plan {

/// Memory needed from `lower` up to, but not including, `upper`, in any unit of time.
struct Buffer {
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;  // > lower
  Bytes size;
};

/// The first and last section in which a buffer is alive.
struct Lifetime {
  std::uint32_t first = 0, last = 0;

  std::uint32_t length() const { return last - first + 1; }
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

struct Problem {
  std::vector<Lifetime> lifetimes;  // by buffer
  std::vector<Bytes> sizes;         // rounded up
  std::uint32_t section_count = 0;
  /// The highest sum of sizes alive at one time, LOAD in the literature: no placement needs less.
  Bytes load;
  Bytes largest;  // size of the largest buffer, hmax

  std::uint32_t count() const { return static_cast<std::uint32_t>(sizes.size()); }
};

/// Rounds sizes up to `align`, a power of two; offsets that are sums of them are then also aligned. A buffer of no
/// bytes or no time gets the minimum of either. The sizes must add up to less than 2^64.
Problem make_problem(std::span<const Buffer> buffers, Bytes align);

/// Where each buffer lies.
struct Placement {
  std::vector<Bytes> offsets;
  Bytes peak;  // highest end of a buffer
};

}  // namespace memreel::plan
