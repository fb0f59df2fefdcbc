// What a program held before its recording began.
#pragma once

#include <vector>

#include "analyzer/category/observations.h"
#include "formats/model/trace.h"

namespace memreel {

/// Fills in the evidence of allocations that are older than the recording and that their frames don't explain: by the
/// sizes of what the recording's backward passes leave, which are those of the parameters; by who frees them; and
/// where a recording has no backward pass, by being held throughout.
///
/// Copies of equal size differ by their age only, which the addresses give roughly: CUDA hands out the address space
/// in one direction, and what lies in a segment that was made for a larger request came after that one.
void conclude_older(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence);

}  // namespace memreel
