// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/search.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace memreel::plan {
namespace {

using Row = std::uint32_t;
using Order = std::vector<Row>;

/// What orders are made of.
struct Keys {
  double total = 0;   // bytes alive at the busiest time of the lifetime
  double width = 0;   // the lifetime, in time
  double length = 0;  // the lifetime, in sections
  double size = 0;
  double area = 0;   // width * size
  double share = 0;  // length * size
};

std::vector<Keys> keys_of(const Problem& problem) {
  std::vector<double> alive(problem.section_count);
  for (Row b = 0; b < problem.count(); ++b)
    problem.for_each_section(b, [&](std::uint32_t s) { alive[s] += static_cast<double>(problem.sizes[b].count); });
  std::vector<Keys> keys(problem.count());
  for (Row b = 0; b < problem.count(); ++b) {
    Keys& of = keys[b];
    of.size = static_cast<double>(problem.sizes[b].count);
    of.width = static_cast<double>(problem.durations[b]);
    problem.for_each_section(b, [&](std::uint32_t s) {
      of.total = std::max(of.total, alive[s]);
      ++of.length;
    });
    of.area = of.width * of.size;
    of.share = of.length * of.size;
  }
  return keys;
}

using KeyList = std::vector<double Keys::*>;

/// Greatest first, by one key after the other.
Order ordered_by(const std::vector<Keys>& keys, const KeyList& list) {
  Order order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](Row a, Row b) {
    for (double Keys::*const key : list)
      if (keys[a].*key != keys[b].*key) return keys[a].*key > keys[b].*key;
    return false;
  });
  return order;
}

struct Strategy {
  Search::Branching branching;
  Order order;
};

/// The ones that find most first; the orders by total, width and area are MiniMalloc's.
std::vector<Strategy> strategies(const Problem& problem) {
  using enum Search::Branching;
  const std::vector<Keys> keys = keys_of(problem);
  const KeyList by_width{&Keys::total, &Keys::width, &Keys::area}, by_length{&Keys::total, &Keys::length, &Keys::share},
      by_size{&Keys::total, &Keys::size, &Keys::width}, by_share{&Keys::total, &Keys::share, &Keys::length},
      widest{&Keys::width, &Keys::area, &Keys::total}, largest{&Keys::size, &Keys::width};
  std::vector<Strategy> list;
  for (const auto& [branching, order] :
       {std::pair{least_room, &by_width}, std::pair{lowest_floor, &by_width}, std::pair{least_room, &by_size},
        std::pair{lowest_floor, &by_length}, std::pair{least_room, &by_share}, std::pair{least_room, &largest},
        std::pair{least_room, &widest}, std::pair{lowest_floor, &by_share}})
    list.push_back({branching, ordered_by(keys, *order)});
  return list;
}

class LeastPeak {
 public:
  LeastPeak(const Problem& problem, Placement& best, const SearchLimits& limits)
      : problem_(problem),
        best_(best),
        limits_(limits),
        unit_(SearchGraph::unit_of(problem)),
        graph_(problem),
        strategies_(strategies(problem)),
        nodes_(limits.effort / cost_of_node(problem)),
        impossible_(static_cast<Units>(problem.load / unit_) - 1),
        possible_(static_cast<Units>(std::min(best.peak / unit_, most_units))) {
    for (unsigned i = 0; i < std::clamp(limits.threads, 1U, static_cast<unsigned>(strategies_.size())); ++i)
      searches_.emplace_back(graph_);
  }

  Bytes run() {
    std::uint64_t nodes = std::max<std::uint64_t>(1000, 4 * std::uint64_t{problem_.count()});
    for (bool first = true; !is_done(); nodes *= 2, first = false) sweep(nodes, first);
    return unit_ * static_cast<std::uint64_t>(impossible_ + 1);
  }

 private:
  static constexpr std::uint64_t most_units = std::uint64_t{1} << 30U;

  static std::uint64_t cost_of_node(const Problem& problem) {
    std::uint64_t cost = problem.count() + problem.section_count;
    for (const Lifetime& lifetime : problem.lifetimes) cost += lifetime.length();
    return std::max<std::uint64_t>(cost, 1);
  }

  /// The capacity asked for, in whole units.
  Units wanted() const {
    return limits_.capacity ? static_cast<Units>(std::min(*limits_.capacity / unit_, most_units)) : 0;
  }

  bool is_done() const {
    if (nodes_ == 0 || limits_.stop() || impossible_ + 1 >= possible_) return true;
    return limits_.capacity && (possible_ <= wanted() || impossible_ >= wanted());
  }

  /// Tries the lower bound first, since it is usually the answer, then bisects. A capacity given up counts as
  /// impossible until the next sweep.
  void sweep(std::uint64_t nodes, bool first) {
    Units below = impossible_;
    for (Units capacity = limits_.capacity ? wanted() : below + 1; !is_done() && below + 1 < possible_;
         capacity = below + (possible_ - below) / 2) {
      const Search::Answer answer = attempt(capacity, nodes, first);
      if (answer == Search::Answer::impossible) {
        impossible_ = std::max(impossible_, capacity);
        limits_.progress(best_.peak, unit_ * static_cast<std::uint64_t>(impossible_ + 1));
      }
      if (answer != Search::Answer::found) below = std::max(below, capacity);
      if (limits_.capacity) return;
    }
  }

  /// Tries the strategies with some nodes each. The first in order that has an answer counts, however many run at a
  /// time, and the nodes up to it.
  Search::Answer attempt(Units capacity, std::uint64_t nodes, bool first) {
    const std::size_t count = first ? strategies_.size() / 2 : strategies_.size();
    nodes = std::min(nodes, std::max<std::uint64_t>(nodes_ / count, 1));
    std::atomic<std::size_t> next = 0, answered = count;
    std::vector<Search::Answer> answers(count, Search::Answer::gave_up);
    std::vector<std::uint64_t> used(count);
    std::vector<std::vector<Units>> offsets(count);
    const auto work = [&](Search& search) {
      for (std::size_t i = next++; i < answered; i = next++) {
        const std::function<bool()> stop = [&, i] { return answered < i || limits_.stop(); };
        answers[i] = search.run({.capacity = capacity,
                                 .branching = strategies_[i].branching,
                                 .order = strategies_[i].order,
                                 .nodes = nodes,
                                 .stop = stop});
        used[i] = search.nodes_used();
        if (answers[i] == Search::Answer::gave_up) continue;
        if (answers[i] == Search::Answer::found) offsets[i] = search.offsets();
        for (std::size_t least = answered; i < least && !answered.compare_exchange_weak(least, i);) continue;
      }
    };
    {
      // The first attempts take milliseconds: threads would waste more than they save.
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < searches_.size() && !first; ++i) threads.emplace_back([&, i] { work(searches_[i]); });
      work(searches_[0]);
    }
    const std::size_t ran = std::min(answered + 1, count);
    nodes_ -= std::min(
        nodes_, std::accumulate(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(ran), std::uint64_t{1}));
    if (answered == count) return Search::Answer::gave_up;
    if (answers[answered] == Search::Answer::found) adopt(offsets[answered]);
    return answers[answered];
  }

  void adopt(const std::vector<Units>& offsets) {
    best_.peak = {};
    best_.offsets.resize(problem_.count());
    for (Row b = 0; b < problem_.count(); ++b) {
      best_.offsets[b] = unit_ * static_cast<std::uint64_t>(offsets[b]);
      best_.peak = std::max(best_.peak, best_.offsets[b] + problem_.sizes[b]);
    }
    possible_ = static_cast<Units>(best_.peak / unit_);
    limits_.progress(best_.peak, unit_ * static_cast<std::uint64_t>(impossible_ + 1));
  }

  const Problem& problem_;
  Placement& best_;
  const SearchLimits& limits_;
  Bytes unit_;
  SearchGraph graph_;
  std::vector<Search> searches_;  // one for each thread
  std::vector<Strategy> strategies_;
  std::uint64_t nodes_;
  Units impossible_;  // the highest capacity known to be too small
  Units possible_;    // the lowest known to suffice
};

}  // namespace

Bytes search_below(const Problem& problem, Placement& best, const SearchLimits& limits) {
  if (best.peak <= problem.load || !SearchGraph::suits(problem)) return problem.load;
  return LeastPeak(problem, best, limits).run();
}

}  // namespace memreel::plan
