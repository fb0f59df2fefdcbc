// Ties the two levels of a recording: what a framework sub-allocates is what it got from the driver.
#pragma once

#include <cstddef>

#include "formats/model/trace.h"

namespace memreel {

/// A recording of both levels shows a framework's segments as the driver's allocations (or mappings) that its own
/// allocations lie in. Makes them what they are: segment events of the framework's heap, at the same places, with the
/// same stacks and times. What is left at the driver's level is memory that nobody sub-allocates, so that nothing is
/// counted twice. Created memory (cuMemCreate) that such a mapping is of goes with it. Where a heap has segment events
/// of its own, the driver's allocations and mappings that make up such a segment are left out. Returns how many of the
/// driver's there were.
///
/// Memory that the framework never allocated from while it held it stays the driver's.
std::size_t tie_levels(Trace& trace);

}  // namespace memreel
