// Recordings of one instant: PyTorch's snapshots without traces (include_traces=False, or a list of segments). They say
// what is live and where it lies, and nothing of how it came about.
#pragma once

#include "formats/model/event_kinds.h"

namespace memreel {

/// What such a recording leaves out.
constexpr EventKinds all_of_a_history() {
  EventKinds kinds;
  for (const EventKind kind : {EventKind::alloc, EventKind::free_requested, EventKind::free_completed,
                               EventKind::segment_alloc, EventKind::segment_free})
    kinds.add(kind);
  return kinds;
}

}  // namespace memreel
