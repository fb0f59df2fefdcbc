// Which memory an allocator held, deduced: profiles don't say when it took regions from the device.
//
// What they do say is where allocations lie, how large their chunks are, and after each event the share of the free
// memory that lies outside the largest free chunk. An address outside all regions begins a new one. For its size the
// growth rule of the allocator (analyzer/policies/bfc.h) makes a proposal, and the metrics of all later events either
// confirm it or don't: they depend on all the memory there is. Regions are reported only when every metric fits.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "formats/import/xplane/recording.h"

namespace memreel::xplane {

struct Region {
  std::size_t event = 0;  // taken for this one
  Address address;
  Bytes size;
};

struct Regions {
  bool growing = false;  // else one region of the whole limit was there from the start
  Bytes page;            // which the sizes of regions were rounded up to
  std::vector<Region> regions;
};

/// For the events of one allocator in their order. Nothing when no reading agrees with them, e.g. when memory was held
/// before the first of them. A history that agrees with several readings is taken for a growing pool's without pages.
std::optional<Regions> infer_regions(std::span<const MemoryEvent* const> events);

}  // namespace memreel::xplane
