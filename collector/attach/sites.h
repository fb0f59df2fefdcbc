// SPDX-License-Identifier: Apache-2.0
// Where the memory that a recorded program holds was allocated.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/units.h"
#include "formats/reader/trace_reader.h"

namespace memreel::attach {

/// The addresses of what is live at the current end of a trace, which may still be written to, and was allocated at
/// `site`: a part of the text "train.py:12 train" of a Python frame in its stack. Of one address in several heaps (a
/// tensor, the segment that begins with it) one is returned; of more than `most` the largest, largest first. Memory:
/// what is live. Errors: the reader's.
Result<std::vector<Address>> allocated_at(TraceReader& trace, const std::string& site, std::size_t most);

}  // namespace memreel::attach
