// Infers which memory an allocator held: profiles don't record when it got regions from the device.
//
// They do record the addresses of allocations, the sizes of their chunks and, after each event, the share of the free
// memory outside the largest free chunk. An address outside all regions starts a new one. The allocator's growth rule
// (analyzer/policies/bfc.h) suggests its size, and the metrics of all later events confirm or refute it: they depend on
// all the memory there is. Regions are reported only if every metric fits.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "formats/import/xplane/recording.h"

namespace memreel::xplane {

struct Region {
  std::size_t event = 0;  // that needed the region
  Address address;
  Bytes size;
};

struct Regions {
  bool growing = false;  // else one region of the whole limit existed from the start
  Bytes page;            // region sizes are rounded up to it
  std::vector<Region> regions;
};

/// For the events of one allocator, in order. None if no interpretation fits, e.g. because memory was held before the
/// first event. A history that fits several is interpreted as a growing pool without pages.
std::optional<Regions> infer_regions(std::span<const MemoryEvent* const> events);

}  // namespace memreel::xplane
