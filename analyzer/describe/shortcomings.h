// SPDX-License-Identifier: Apache-2.0
// Sentences about what a trace lacks.
#pragma once

#include "formats/model/trace.h"

namespace memreel {

/// What is known of the allocations from before the recording.
struct Older {
  std::uint64_t with_stacks = 0;
  bool are_all = false;  // is_instant(): nothing was allocated later
};

/// Looks at every allocation.
Older older_of(const Trace& trace);

/// One sentence for each shortcoming, and what to do about it; none if the trace is complete. `file_size`: of the whole
/// file, which should have a footer; 0 if there is no file, or it has not been read entirely yet.
std::vector<std::string> shortcomings(const Losses& losses, const ReadReport& read, Bytes file_size,
                                      const Older& older);

/// For a synthetic trace, a sentence that says so; otherwise empty.
std::string provenance(const Header& header);

std::vector<std::string> shortcomings(const Trace& trace);

}  // namespace memreel
