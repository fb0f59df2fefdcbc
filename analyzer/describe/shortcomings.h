// SPDX-License-Identifier: Apache-2.0
// Sentences about what a trace lacks.
#pragma once

#include "formats/model/trace.h"

namespace memreel {

/// One sentence for each shortcoming, and what to do about it; none if the trace is complete. `file_size`: of the whole
/// file, which should have a footer; 0 if there is no file, or it has not been read entirely yet. `known_stacks`:
/// number of allocations from before the recording whose stacks are known.
std::vector<std::string> shortcomings(const Losses& losses, const ReadReport& read, Bytes file_size,
                                      std::uint64_t known_stacks = 0);

/// For a synthetic trace, a sentence that says so; otherwise empty.
std::string provenance(const Header& header);

std::vector<std::string> shortcomings(const Trace& trace);

}  // namespace memreel
