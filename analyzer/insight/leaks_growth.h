// Nothing leaks more than live memory grows by.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analyzer/insight/leaks.h"

namespace memreel {

/// Which of the accused among `findings`, all of `heap`, only take the place of what was freed: of older memory of the
/// same size, as in a queue that is longer than the recording; or, if all accusations together exceed what live memory
/// grew by over the rounds, first the suspicions, then the rest.
std::vector<std::size_t> unfounded(const Trace& trace, HeapId heap, const Rounds& rounds,
                                   std::span<const LeakFinding> findings);

}  // namespace memreel
