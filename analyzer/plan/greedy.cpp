// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/greedy.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace memreel::plan {
namespace {

/// Ascending by `key` of a row, ties by row.
template <class Key>
Order ordered_by(const Problem& problem, const Key& key) {
  Order order(problem.count());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::less{}, key);
  return order;
}

constexpr std::uint64_t descending(std::uint64_t value) { return ~value; }

}  // namespace

Order order_by_size(const Problem& problem) {
  return ordered_by(problem, [&](std::uint32_t b) {
    const Lifetime& lifetime = problem.lifetimes[b];
    return std::tuple{descending(problem.sizes[b].count), descending(lifetime.length()), lifetime.first};
  });
}

Order order_by_area(const Problem& problem) {
  return ordered_by(problem, [&](std::uint32_t b) {
    const Lifetime& lifetime = problem.lifetimes[b];
    const auto area = static_cast<double>(problem.sizes[b].count) * lifetime.length();
    return std::tuple{-area, lifetime.first};
  });
}

Order order_by_lifetime(const Problem& problem) {
  return ordered_by(problem, [&](std::uint32_t b) {
    const Lifetime& lifetime = problem.lifetimes[b];
    return std::tuple{descending(lifetime.length()), descending(problem.sizes[b].count), lifetime.first};
  });
}

Placement place_in_order(const Problem& problem, std::span<const std::uint32_t> order, Fit fit, std::uint64_t& effort,
                         std::span<const Buffer> buffers) {
  std::vector<Bytes> least(order.size() + 1, Bytes{~std::uint64_t{0}});  // of the sizes from here on
  for (std::size_t i = order.size(); i-- > 0;) least[i] = std::min(least[i + 1], problem.sizes[order[i]]);
  Placement placement{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  GapIndex index(problem);
  const auto take = [&](std::uint32_t b, Bytes offset, Bytes least_later) {
    index.take(problem.lifetimes[b], offset, problem.sizes[b], least_later);
    placement.offsets[b] = offset;
    placement.peak = std::max(placement.peak, offset + problem.sizes[b]);
  };
  for (std::uint32_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].is_fixed()) take(b, *buffers[b].offset, least.front());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t b = order[i];
    const Bytes align = buffers.empty() ? 1_B : buffers[b].align;
    if (!buffers.empty() && buffers[b].is_fixed()) continue;
    // A gap that is this much larger fits wherever it begins.
    const Bytes offset = index.find(problem.lifetimes[b], problem.sizes[b] + (align - 1_B), fit);
    take(b, round_up(offset, align), least[i + 1]);
  }
  effort += index.effort() + order.size();
  return placement;
}

}  // namespace memreel::plan
