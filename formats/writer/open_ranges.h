// The ranges that a program's threads have begun and not ended.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/tables.h"

namespace memreel {

/// Pairs marks as readers do: an end closes its thread's latest open range of that name, or nothing if there is none.
/// Bounded: `deepest` ranges per thread, `most` in total.
class OpenRanges {
 public:
  static constexpr std::size_t deepest = 64, most = 1024;

  /// `mark` is a mark event with the IDs of `tables`, which must be consistent across calls.
  void see(const Event& mark, const Tables& tables);

  /// Adds the marks that began the open ranges, in order within each thread.
  void append_to(std::vector<Event>& events) const;

 private:
  struct Range {
    StringId name = StringId::none;
    Event begin;
  };

  std::vector<std::vector<Range>> by_thread_;
  std::size_t count_ = 0;
};

}  // namespace memreel
