// Which refusals are one: a request that failed is refused by its pool, and before that, perhaps twice, by the driver.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// What one heap refused of a request.
struct Refusal {
  HeapId heap = HeapId::none;
  Bytes requested;                    // of this heap: a pool asks for a segment
  std::vector<std::uint32_t> events;  // ascending; more than one when it was asked again
};

/// A request that failed.
struct Incident {
  std::uint32_t event = 0;        // when the program was told: the last of all
  std::vector<Refusal> refusals;  // of the heap that the program asked first, then of those below it
};

struct Incidents {
  std::vector<Incident> failed;  // by event
  std::uint64_t retried = 0;     // requests that the driver refused, and that were served at another try
};

/// Refusals of a heap belong to the refusal that the same thread then met in a pool above it, when nothing was served
/// in between and the lower one was of the same request: as large, or a piece of memory to be mapped. The same refusal
/// several times in a row is one request that was tried again.
Incidents find_incidents(const Trace& trace);

}  // namespace memreel
