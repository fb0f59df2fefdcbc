#include "formats/reader/allocation_numbers.h"

#include <algorithm>

namespace memreel {

void AllocationNumbers::add(std::uint64_t begin, std::uint64_t count) {
  if (count == 0) return;
  if (runs_.empty() || begin != runs_.back().end) runs_.push_back({begin, begin, next_id_});
  runs_.back().end += count;
  next_id_ += count;
}

AllocationId AllocationNumbers::find(std::uint64_t ordinal) const {
  const auto after = std::ranges::upper_bound(runs_, ordinal, {}, &Run::begin);
  if (after == runs_.begin()) return AllocationId::none;
  const Run& run = *std::prev(after);
  return ordinal < run.end ? id(run, ordinal) : AllocationId::none;
}

}  // namespace memreel
