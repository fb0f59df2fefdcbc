// SPDX-License-Identifier: Apache-2.0
// The least peak, by complete searches of one capacity after another.
//
// How long a search takes depends on luck with its order: most orders find a placement at once or not for hours. So
// many orders are tried with few nodes, then with twice as many, and so on (Gomes, Selman and Kautz, "Boosting
// combinatorial search through randomization", AAAI 1998).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

struct SearchLimits {
  /// Sections visited, about: some nanoseconds each.
  std::uint64_t effort = 0;
  /// Finds a placement of at most this peak instead of the least one.
  std::optional<Bytes> capacity = std::nullopt;
  unsigned threads = 1;  // make no difference to the result
  std::function<bool()> stop = [] { return false; };
  /// Told the peak and the bound whenever one of them is better.
  std::function<void(Bytes peak, Bytes bound)> progress = [](Bytes, Bytes) {};
};

/// Improves `best`. Returns a lower bound for every placement: the peak itself if it is proven to be optimal, and more
/// than the capacity if no placement has it. problem.load if the problem is too large for a search.
Bytes search_below(const Problem& problem, Placement& best, const SearchLimits& limits);

}  // namespace memreel::plan
