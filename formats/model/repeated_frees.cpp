// SPDX-License-Identifier: Apache-2.0
#include "formats/model/repeated_frees.h"

#include "formats/model/trace.h"

namespace memreel {

std::size_t part_with_repeated_frees(Trace& trace) {
  Events& events = trace.events;
  if (events.find(EventKind::pool_created, 0) == events.count()) return 0;
  std::vector<bool> is_requested(events.allocation_count());
  std::size_t repeated = 0;
  for (std::size_t i = 0; i < events.count(); ++i) {
    const AllocationId id = events.allocation(i);
    if (events.kind(i) != EventKind::free_requested || id == AllocationId::none) continue;
    if (is_requested[index(id)]) {
      Event event = events[i];
      event.allocation = AllocationId::none;
      events.set(i, event);
      ++repeated;
    }
    is_requested[index(id)] = true;
  }
  return repeated;
}

}  // namespace memreel
