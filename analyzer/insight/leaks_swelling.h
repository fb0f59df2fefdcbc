// An object that is repeatedly replaced by a larger one: `history = torch.cat([history, x])`.
//
// No allocation is kept, so leaks_judge.h sees nothing; still, the bytes held by the site grow.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/insight/intervals.h"
#include "analyzer/insight/leaks_judge.h"
#include "analyzer/insight/leaks_population.h"
#include "formats/model/trace.h"

namespace memreel {

/// The bytes a site holds at the end of its first and its last interval.
struct Swelling {
  Growth growth;  // intervals: in which something larger was allocated; slope, r2: of the bytes held over the intervals
  Bytes at_first, at_last;
};

/// Whether a site frees what it allocates and still holds more from interval to interval, linearly, until the end: in
/// at least 16 intervals and over half of all, to twice what it held a quarter of the way, and never much less than
/// before.
std::optional<Swelling> swelling_of(const Population& population, const Intervals& intervals);

/// Whether another site also requests more and more, linearly: then the program's data grows (a curriculum, the keys of
/// a long request), and nothing is kept needlessly. One pass over the trace.
bool others_grow(const Trace& trace, HeapId heap, const Intervals& intervals, StackId site);

}  // namespace memreel
