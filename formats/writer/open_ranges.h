// Which ranges the threads of a program have begun and not ended.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/tables.h"

namespace memreel {

/// Follows marks as readers pair them: an end is that of the latest range of its name that its thread has open, and of
/// no range when there is none. Bounded: of a thread the `deepest` ranges are known, of all threads together `most`.
class OpenRanges {
 public:
  static constexpr std::size_t deepest = 64, most = 1024;

  /// `mark` is an event of that kind with the ids of `tables`; those of one call are those of the next.
  void see(const Event& mark, const Tables& tables);

  /// Adds the marks that began them, those of a thread in order.
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
