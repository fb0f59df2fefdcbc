// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/outward.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace memreel::plan {
namespace {

using Row = std::uint32_t;
using Time = std::int64_t;  // a section, negative if time is swept backwards

constexpr Bytes endless{std::numeric_limits<std::uint64_t>::max()};

/// What is alive at one instant of a sweep, in order of its offsets, and the gaps between.
class Front {
 public:
  Front(const Problem& problem, bool forwards, double together, Bytes enough, std::vector<Bytes>& offsets)
      : problem_(problem),
        forwards_(forwards),
        enough_(enough),
        offsets_(offsets),
        above_(problem.count() + 1, ground()),
        below_(problem.count() + 1, ground()) {
    double lengths = 0, sizes = 0;
    for (Row b = 0; b < problem.count(); ++b) {
      lengths += problem.lifetimes[b].length();
      sizes += static_cast<double>(problem.sizes[b].count);
    }
    mean_lifetime_ = lengths / problem.count();
    worth_ = together * sizes / problem.count();
    add_gap(ground());
  }

  Time begin_of(Row b) const {
    return forwards_ ? Time{problem_.lifetimes[b].first} : -Time{problem_.lifetimes[b].last};
  }
  Time end_of(Row b) const { return forwards_ ? Time{problem_.lifetimes[b].last} : -Time{problem_.lifetimes[b].first}; }

  /// Adds a buffer that has been placed, above all others.
  void stack(Row b) { insert(b, below_[ground()]); }

  void place(Row b) {
    constexpr std::size_t most_gaps = 32;  // looked at: more find little more
    const Bytes size = problem_.sizes[b];
    Row best = ground();
    Bytes offset;
    double least = std::numeric_limits<double>::infinity();
    std::size_t looked_at = 0;
    for (auto gap = gaps_.lower_bound({size, 0}); gap != gaps_.end() && looked_at < most_gaps; ++gap, ++looked_at) {
      const Row under = gap->second;
      const bool is_last = above_[under] == ground();
      const double left = left_over(gap->first, under, size);
      const auto consider = [&](Row neighbour, Bytes at) {
        const double cost = left + worth_ * apart(b, neighbour);
        if (cost >= least) return;
        least = cost;
        best = under;
        offset = at;
      };
      consider(under, end_of_extent(under));
      if (!is_last) consider(above_[under], offsets_[above_[under]] - size);
    }
    offsets_[b] = offset;
    insert(b, best);
  }

  void remove(Row b) {
    const Row under = below_[b], over = above_[b];
    remove_gap(under);
    remove_gap(b);
    above_[under] = over;
    below_[over] = under;
    add_gap(under);
  }

 private:
  /// What lies below and above everything.
  Row ground() const { return problem_.count(); }
  Bytes end_of_extent(Row b) const { return b == ground() ? Bytes{} : offsets_[b] + problem_.sizes[b]; }

  /// A gap is known by what lies below it.
  std::pair<Bytes, Row> gap_above(Row under) const {
    const Bytes end = above_[under] == ground() ? endless : offsets_[above_[under]];
    return {end - end_of_extent(under), under};
  }
  void add_gap(Row under) {
    if (const auto gap = gap_above(under); gap.first > 0_B) gaps_.insert(gap);
  }
  void remove_gap(Row under) { gaps_.erase(gap_above(under)); }

  void insert(Row b, Row under) {
    const Row over = above_[under];
    remove_gap(under);
    above_[under] = below_[over] = b;
    below_[b] = under;
    above_[b] = over;
    add_gap(under);
    add_gap(b);
  }

  /// Bytes; of the gap above everything, what is left up to `enough_`, or else much.
  double left_over(Bytes gap, Row under, Bytes size) const {
    if (above_[under] != ground()) return static_cast<double>((gap - size).count);
    constexpr double much = 1e20;
    const Bytes end = end_of_extent(under) + size;
    return end <= enough_ ? static_cast<double>((enough_ - end).count) : much;
  }

  /// How far apart two buffers end, from 0 to 1, in mean lifetimes.
  double apart(Row b, Row neighbour) const {
    constexpr double unknown = 0.3;  // next to nothing: neither good nor bad
    if (neighbour == ground()) return unknown;
    return std::min(1.0, static_cast<double>(std::abs(end_of(b) - end_of(neighbour))) / mean_lifetime_);
  }

  const Problem& problem_;
  bool forwards_;
  Bytes enough_;
  std::vector<Bytes>& offsets_;
  double mean_lifetime_ = 0, worth_ = 0;
  std::vector<Row> above_, below_;  // of what is alive, and of the ground
  std::set<std::pair<Bytes, Row>> gaps_;
};

/// The first section in which most is alive.
std::uint32_t busiest_section(const Problem& problem) {
  std::vector<std::int64_t> change(problem.section_count + 1);
  for (Row b = 0; b < problem.count(); ++b) {
    change[problem.lifetimes[b].first] += static_cast<std::int64_t>(problem.sizes[b].count);
    change[problem.lifetimes[b].last + 1] -= static_cast<std::int64_t>(problem.sizes[b].count);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<std::uint32_t>(std::ranges::max_element(change) - change.begin());
}

}  // namespace

Placement place_outward(const Problem& problem, const Preference& preference, Bytes enough) {
  Placement placement{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  if (problem.count() == 0) return placement;
  const std::uint32_t busiest = busiest_section(problem);
  std::vector<Row> stack, rest;
  for (Row b = 0; b < problem.count(); ++b)
    (problem.lifetimes[b].overlaps({busiest, busiest}) ? stack : rest).push_back(b);
  std::ranges::stable_sort(stack, std::less{}, [&](Row b) {
    return preference.by_end ? ~problem.lifetimes[b].last : problem.lifetimes[b].first;
  });
  Bytes top;
  for (const Row b : stack) {
    placement.offsets[b] = top;
    top += problem.sizes[b];
  }
  for (const bool forwards : {true, false}) {
    Front front(problem, forwards, preference.together, enough, placement.offsets);
    for (const Row b : stack) front.stack(b);
    std::vector<Row> begins;
    const Time from = forwards ? Time{busiest} : -Time{busiest};
    std::ranges::copy_if(rest, std::back_inserter(begins), [&](Row b) { return front.begin_of(b) > from; });
    std::vector<Row> ends = begins;
    ends.insert(ends.end(), stack.begin(), stack.end());
    // Of what begins together, the largest first.
    std::ranges::stable_sort(begins, std::less{}, [&](Row b) {
      return std::pair{front.begin_of(b), ~problem.sizes[b].count};
    });
    std::ranges::stable_sort(ends, std::less{}, [&](Row b) { return front.end_of(b); });
    auto ended = ends.begin();
    for (const Row b : begins) {
      for (; front.end_of(*ended) < front.begin_of(b); ++ended) front.remove(*ended);
      front.place(b);
    }
  }
  for (Row b = 0; b < problem.count(); ++b)
    placement.peak = std::max(placement.peak, placement.offsets[b] + problem.sizes[b]);
  return placement;
}

}  // namespace memreel::plan
