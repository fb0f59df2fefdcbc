// What the figures of a text decide, whichever framework printed it.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/explain/failure.h"

namespace memreel::explain {

/// Fills in the kind, the reason and the shortfall from the figures, and figures that follow from others (needed,
/// reserved, others). A family's own rule calls it once its figures mean what Field says.
void judge_by_figures(Failure& failure);

/// "1.93 GiB".
std::string in_words(std::uint64_t bytes);

}  // namespace memreel::explain
