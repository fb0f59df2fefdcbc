// SPDX-License-Identifier: Apache-2.0
// Offline plans for a program whose requests are all known in advance.
//
// Finding the least peak is NP-complete. It is never below LOAD, the most that is alive at one time, and comes close to
// it if the largest buffer, hmax, is small compared to LOAD: there is always a placement within LOAD +
// O((hmax/LOAD)^(1/7)) LOAD (Buchsbaum, Karloff, Kenyon, Reingold and Thorup, "OPT versus LOAD in dynamic storage
// allocation", SICOMP 2004).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/replay/plan/problem.h"

namespace memreel::plan {

/// How long plan_best may search: sections visited, about, some nanoseconds each.
using Effort = std::uint64_t;
constexpr Effort effort_to_compare = 20'000'000;  // with allocators: a second or less
constexpr Effort effort_to_keep = 500'000'000;    // a plan that many runs will use: a few seconds

struct Options {
  Bytes align = 512_B;  // of offsets, and of ends; a power of two
  Effort effort = effort_to_compare;
  /// Asks plan_best whether there is a plan of at most this peak, not for the lowest peak.
  std::optional<Bytes> capacity = std::nullopt;
  unsigned threads = 1;  // of plan_best's search; the plan does not depend on their number
  /// Asked often: true ends plan_best with what it has. Not having been asked to stop, it is deterministic.
  std::function<bool()> stop = [] { return false; };
  /// Told the peak of the best plan so far, and the bound, whenever one of them is better.
  std::function<void(Bytes peak, Bytes bound)> progress = [](Bytes, Bytes) {};
};

struct Plan {
  std::vector<Bytes> offsets;  // by buffer
  Bytes peak;                  // highest end of a buffer
  Bytes load;                  // LOAD, after rounding up to the plan's `align`
  Bytes largest;               // hmax
  Bytes bound;                 // no plan has a lower peak: load, or more if a search has proven it
  std::string_view method;     // the winning method of the portfolio: "size"

  double over_load() const;      // peak / load
  double largest_share() const;  // hmax / load: the smaller, the closer some plan is to LOAD
  double gap() const;            // by how much the peak may be above the lowest possible: peak / bound - 1
  bool proved() const { return peak == bound; }  // no plan has a lower peak
};

/// Largest first, each into the smallest gap that fits.
Plan plan_by_size(std::span<const Buffer> buffers, const Options& options = {});

/// The lowest peak of a portfolio, with the buffers' own alignments; around what has to lie somewhere, of several
/// orders only. The portfolio: the online fits forwards and backwards in time, outward from the busiest instant,
/// several orders, largest first and others, ejection, and, if there are not too many buffers, a complete search for
/// what is still above `bound`. Stops once a peak equals LOAD. The order of the buffers makes no difference.
Plan plan_best(std::span<const Buffer> buffers, const Options& options = {});

}  // namespace memreel::plan
