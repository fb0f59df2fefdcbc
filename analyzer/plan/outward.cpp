// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/outward.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/plan/stack.h"

namespace memreel::plan {
namespace {

/// The first section in which most is alive.
std::uint32_t busiest_section(const Problem& problem) {
  const std::vector<Bytes> alive = bytes_alive(problem);
  return static_cast<std::uint32_t>(std::ranges::max_element(alive) - alive.begin());
}

Bytes peak_of(const std::array<Swept, 2>& swept) { return std::max(swept[0].peak, swept[1].peak); }

/// One way to stack what is alive at an instant, and what a sweep in each direction meets.
struct Outward {
  Outward() = default;
  /// See stack_at().
  Outward(const Problem& problem, std::uint32_t instant, double balance) : offsets(problem.count()) {
    const std::vector<Row> stack = stack_at(problem, instant, balance, offsets);
    for (Row b = 0; b < problem.count(); ++b)
      if (!problem.lifetimes[b].overlaps({instant, instant}))
        courses[problem.lifetimes[b].first > instant ? 0 : 1].begins.push_back(b);
    for (Course& course : courses) {
      course.forwards = &course == courses.data();
      course.stack = stack;
    }
  }

  Placement joined(const std::array<Swept, 2>& swept) const {
    Placement placement{.offsets = offsets, .peak = peak_of(swept)};
    for (const Swept& each : swept)
      for (std::size_t i = 0; i < each.rows.size(); ++i) placement.offsets[each.rows[i]] = each.offsets[i];
    return placement;
  }

  std::vector<Bytes> offsets;     // of the stack
  std::array<Course, 2> courses;  // forwards, backwards
};

/// The first buffers of each course, as many as arrive in a few lifetimes.
Outward near(const Problem& problem, Outward outward) {
  constexpr std::uint64_t lifetimes = 4;
  const std::uint64_t most = std::max<std::uint64_t>(1, lifetimes * problem.mean_alive());
  for (Course& course : outward.courses) {
    std::vector<Row>& begins = course.begins;
    if (begins.size() <= most) continue;
    const auto by_begin = [&](Row b) {
      return course.forwards ? problem.lifetimes[b].first : ~problem.lifetimes[b].last;
    };
    const auto end = begins.begin() + static_cast<std::ptrdiff_t>(most);
    std::ranges::nth_element(begins, end, std::less{}, by_begin);
    begins.erase(end, begins.end());
  }
  return outward;
}

/// What sweeps make of several stacks.
std::vector<std::array<Swept, 2>> sweep_all(const Problem& problem, std::span<const Outward> stacks,
                                            std::span<const Preference> preferences, const SweepLimits& limits,
                                            unsigned threads) {
  std::vector<std::array<Swept, 2>> swept(stacks.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < 2 * stacks.size(); i = next++)
      swept[i / 2][i % 2] = sweep(problem, stacks[i / 2].courses[i % 2], stacks[i / 2].offsets, preferences, limits);
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, 2 * stacks.size()); ++i) others.emplace_back(work);
  work();
  others.clear();
  return swept;
}

/// What sweeps make of stacks of which the first ones count: they give up where one before has done as well.
std::array<std::array<Swept, 2>, stacks_swept> sweep_in_turn(const Problem& problem,
                                                             const std::array<Outward, stacks_swept>& stacks,
                                                             std::span<const Preference> preferences,
                                                             const SweepLimits& limits, unsigned threads) {
  std::array<std::array<Swept, 2>, stacks_swept> swept;
  std::array<std::atomic<Bytes>, stacks_swept> found;  // by those before each
  for (std::atomic<Bytes>& peak : found) peak = limits.below;
  std::array<std::atomic<int>, stacks_swept> left;
  for (std::atomic<int>& courses : left) courses = 2;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t n = next++; n < 2 * stacks.size(); n = next++) {
      const std::size_t i = n / 2;
      SweepLimits own = limits;
      own.found = &found[i];
      swept[i][n % 2] = sweep(problem, stacks[i].courses[n % 2], stacks[i].offsets, preferences, own);
      if (--left[i] > 0) continue;
      const Bytes peak = peak_of(swept[i]) <= limits.enough ? 0_B : peak_of(swept[i]);
      for (std::size_t later = i + 1; later < stacks.size(); ++later)
        for (Bytes known = found[later]; peak < known && !found[later].compare_exchange_weak(known, peak);) continue;
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, 2 * stacks.size()); ++i) others.emplace_back(work);
  work();
  others.clear();
  return swept;
}

}  // namespace

Placement place_outward(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits,
                        unsigned threads) {
  Placement best{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  if (problem.count() == 0) return best;
  best.peak = limits.below;
  const std::uint32_t busiest = busiest_section(problem);
  constexpr std::array balances{0.35, 0.5, 0.65, 0.8, 0.0};
  // Which is best can be seen near the instant.
  std::array<Outward, balances.size()> nearby;
  for (std::size_t i = 0; i < nearby.size(); ++i) nearby[i] = near(problem, Outward(problem, busiest, balances[i]));
  constexpr std::uint64_t again_nearby = 10;
  const std::uint64_t again = std::min(limits.again, again_nearby * nearby.front().courses.front().begins.size());
  const auto tried = sweep_all(problem, nearby, preferences.first(std::min<std::size_t>(preferences.size(), 2)),
                               {.enough = limits.enough, .below = limits.below, .again = again}, threads);
  std::array<std::size_t, balances.size()> order{};
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::less{}, [&](std::size_t i) { return peak_of(tried[i]); });
  nearby = {};
  // The second stack is swept while the first still is, in vain if that is enough.
  std::array<Outward, stacks_swept> stacks;
  for (std::size_t i = 0; i < stacks.size(); ++i) stacks[i] = Outward(problem, busiest, balances[order[i]]);
  const std::array<std::array<Swept, 2>, stacks_swept> swept =
      sweep_in_turn(problem, stacks, preferences, limits, threads);
  for (std::size_t i = 0; i < stacks.size() && best.peak > limits.enough; ++i)
    if (peak_of(swept[i]) < best.peak) best = stacks[i].joined(swept[i]);
  return best;
}

}  // namespace memreel::plan
