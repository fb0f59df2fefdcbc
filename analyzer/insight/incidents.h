// SPDX-License-Identifier: Apache-2.0
// Groups refusals into incidents: a failed request is refused by its pool, and before that, perhaps twice, by the
// driver.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

// How much of a device was free at an instant, estimated between its samples.

/// The memory of a device, as reported by the device.
struct DeviceFree {
  Bytes total;      // the whole device
  Bytes free;       // at the last sample, plus what the program released since, minus what it got
  Nanoseconds age;  // of the sample
};

/// For each of `instants` (events, ascending): the state of its device before the event. If the first sample is later,
/// that one. None if the device has no samples.
std::vector<std::optional<DeviceFree>> device_free_at(const Trace& trace, std::span<const std::uint32_t> instants);

/// The part of a request that one heap refused.
struct Refusal {
  HeapId heap = HeapId::none;
  Bytes requested;                    // from this heap: a pool requests a segment
  std::vector<std::uint32_t> events;  // ascending; several if it was retried
};

/// A request that failed.
struct Incident {
  std::uint32_t event = 0;        // when the program was told: the last refusal
  std::vector<Refusal> refusals;  // the heap that the program asked first, then those below it
};

struct Incidents {
  std::vector<Incident> failed;  // by event
  std::uint64_t retried = 0;     // requests refused by the driver but served on a retry
};

/// A refusal of a heap belongs to the next refusal that the same thread meets in a pool above it, if nothing was served
/// in between and the lower one was for the same request: as large, or a piece of memory to be mapped. The same refusal
/// several times in a row is one request that was retried.
Incidents find_incidents(const Trace& trace);

}  // namespace memreel
