// One thing that is replaced by a larger one, again and again: `history = torch.cat([history, x])`.
//
// No allocation is kept, so that nothing of what leaks_judge.h looks at gives it away; what the site holds grows all
// the same.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/insight/intervals.h"
#include "analyzer/insight/leaks_judge.h"
#include "analyzer/insight/leaks_population.h"
#include "formats/model/trace.h"

namespace memreel {

/// What a site holds at the end of its first and its last interval.
struct Swelling {
  Growth growth;  // intervals: in which something larger was made; slope, r2: of what is held over the intervals
  Bytes at_first, at_last;
};

/// Whether a site frees what it makes and holds more all the same, along a line, from interval to interval until
/// the end: in 16 intervals or more and over half of all, to twice what it held a quarter of the way, and never much
/// less than before.
std::optional<Swelling> swelling_of(const Population& population, const Intervals& intervals);

/// Whether another site asks for more and more as well, along a line: then it is what the program works on that grows
/// (a curriculum, the keys of a long request), and nothing is kept that need not be. One pass over the trace.
bool others_grow(const Trace& trace, HeapId heap, const Intervals& intervals, StackId site);

}  // namespace memreel
