#include "analyzer/plan/improve.h"

#include <algorithm>
#include <utility>

namespace memreel::plan {
namespace {

constexpr int most_rounds = 200;

/// Moves every buffer that ends at the peak to half its distance from the front.
void raise(const Problem& problem, const Placement& placement, Order& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t b = order[i];
    if (placement.offsets[b] + problem.sizes[b] != placement.peak) continue;
    const auto at = order.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(i / 2), at, at + 1);
  }
}

}  // namespace

Placement raise_the_highest(const Problem& problem, Order order, std::uint64_t most_effort, std::uint64_t& effort) {
  Placement placement = place_in_order(problem, order, Fit::smallest, effort);
  Placement best = placement;
  for (int i = 0; i < most_rounds && effort < most_effort && best.peak > problem.load; ++i) {
    raise(problem, placement, order);
    placement = place_in_order(problem, order, Fit::smallest, effort);
    if (placement.peak < best.peak) best = placement;
  }
  return best;
}

}  // namespace memreel::plan
