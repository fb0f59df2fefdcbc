// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/online.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "analyzer/policies/fit.h"

namespace memreel::plan {
namespace {

/// The buffers ordered by one of their two ends.
template <class Key>
std::vector<std::uint32_t> ordered_by(std::uint32_t count, const Key& key) {
  std::vector<std::uint32_t> order(count);
  for (std::uint32_t b = 0; b < count; ++b) order[b] = b;
  std::ranges::stable_sort(order, std::less{}, key);
  return order;
}

constexpr Bytes least_unit = 256_B;  // required by the policies

/// The factor that makes every size a multiple of it; 1 unless offsets are aligned more finely than in any allocator.
std::uint64_t scale_of(const Problem& problem) {
  std::uint64_t common = least_unit.count;
  for (const Bytes size : problem.sizes) common = std::gcd(common, size.count);
  return least_unit.count / common;
}

template <class Policy>
Placement place_with(const Problem& problem, std::span<const Buffer> buffers, Direction direction) {
  const bool forwards = direction == Direction::forwards;
  const auto begin = [&](std::uint32_t b) { return forwards ? buffers[b].lower : ~buffers[b].upper; };
  const auto end = [&](std::uint32_t b) { return forwards ? buffers[b].upper : ~buffers[b].lower; };
  const std::vector<std::uint32_t> begins = ordered_by(problem.count(), begin), ends = ordered_by(problem.count(), end);

  Prepared heap;
  heap.slot_count = problem.count();
  SimulatedDevice device({}, {});
  Policy policy(heap, GrowingRangeSettings{.align = least_unit, .page = least_unit}, device);
  const std::uint64_t scale = scale_of(problem);
  Placement placement{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  std::size_t ended = 0;
  for (const std::uint32_t b : begins) {
    for (; end(ends[ended]) <= begin(b); ++ended) policy.free(ends[ended], {});
    if (!policy.allocate(b, problem.sizes[b] * scale, 0)) return {.offsets = {}, .peak = Bytes{~std::uint64_t{0}}};
    placement.offsets[b] = {policy.extent_of(b).address.value / scale};
    placement.peak = std::max(placement.peak, placement.offsets[b] + problem.sizes[b]);
  }
  return placement;
}

}  // namespace

Placement place_online(const Problem& problem, std::span<const Buffer> buffers, Fit fit, Direction direction) {
  return fit == Fit::smallest ? place_with<FitBest>(problem, buffers, direction)
                              : place_with<FitFirst>(problem, buffers, direction);
}

}  // namespace memreel::plan
