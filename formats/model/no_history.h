// Recordings of instants: PyTorch's snapshots without traces (include_traces=False, or a list of segments). They say
// what is live and where, but not how it came about.
#pragma once

#include "formats/model/event_kinds.h"

namespace memreel {

/// The event kinds missing from a recording of one instant.
constexpr EventKinds all_of_a_history() {
  EventKinds kinds;
  for (const EventKind kind : {EventKind::alloc, EventKind::free_requested, EventKind::free_completed,
                               EventKind::segment_alloc, EventKind::segment_free})
    kinds.add(kind);
  return kinds;
}

/// The event kinds missing from a series of them. Even failures are unknown: of what happened between two instants,
/// only what lasted until the second shows.
constexpr EventKinds all_between_instants() { return all_of_a_history() | EventKinds(EventKind::alloc_failed); }

/// Whether these are the missing kinds.
constexpr bool is_no_history(EventKinds skipped) {
  return skipped.bits() == all_of_a_history().bits() || skipped.bits() == all_between_instants().bits();
}

}  // namespace memreel
