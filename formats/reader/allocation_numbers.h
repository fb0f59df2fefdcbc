// From the ordinals that a file gives to allocations to the ids that its reader gives to them.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/ids.h"

namespace memreel {

/// They are the same in an undamaged trace. Where blocks are missing, ids stay dense: allocations in such a gap have
/// none. In a concatenation, ordinals begin again at zero with each trace and ids go on.
class AllocationNumbers {
 public:
  AllocationNumbers() = default;
  /// Every ordinal below `end` has the id `first_id` more than itself.
  AllocationNumbers(std::uint64_t end, std::uint64_t first_id) : runs_{{0, end, first_id}}, next_id_(first_id + end) {}

  /// The next trace of a concatenation.
  void begin_trace() { runs_.clear(); }

  /// Allocations `begin` .. `begin + count - 1` get the next ids. `begin` must not be less than next_ordinal().
  void add(std::uint64_t begin, std::uint64_t count);

  std::uint64_t next_ordinal() const { return runs_.empty() ? 0 : runs_.back().end; }
  std::uint64_t next_id() const { return next_id_; }

  /// None when the allocation is missing.
  AllocationId operator[](std::uint64_t ordinal) const {
    if (runs_.size() == 1 && ordinal >= runs_[0].begin && ordinal < runs_[0].end) [[likely]]
      return id(runs_[0], ordinal);
    return find(ordinal);
  }

 private:
  struct Run {
    std::uint64_t begin = 0, end = 0;  // ordinals
    std::uint64_t first_id = 0;
  };

  static AllocationId id(const Run& run, std::uint64_t ordinal) {
    return AllocationId{static_cast<std::uint32_t>(run.first_id + (ordinal - run.begin))};
  }
  AllocationId find(std::uint64_t ordinal) const;

  std::vector<Run> runs_;  // in order; one when nothing is missing
  std::uint64_t next_id_ = 0;
};

}  // namespace memreel
