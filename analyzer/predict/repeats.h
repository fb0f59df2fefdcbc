// Finds stretches of requests that a larger program makes more of, such as those of layers or tokens.
#pragma once

#include <span>
#include <vector>

#include "analyzer/predict/align.h"
#include "analyzer/predict/model.h"

namespace memreel {

/// Stretches of the base that the next smaller recording lacks, if the requests of their sites grow by a rule. `base`:
/// an index into `recordings` above 0. `below`: the base's partners in the recording before it.
std::vector<Repeat> find_repeats(Recordings recordings, std::size_t base, const Partners& below);

/// The repeat whose unit contains a row, or null.
const Repeat* repeat_of(std::span<const Repeat> repeats, std::uint32_t row);

}  // namespace memreel
