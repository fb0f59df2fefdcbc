// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/outward.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace memreel::plan {
namespace {

using Row = std::uint32_t;
using Time = std::int64_t;  // a section, negative if time is swept backwards

constexpr Bytes endless{std::numeric_limits<std::uint64_t>::max()};

/// As a sweep sees them.
struct Times {
  const Problem& problem;
  bool forwards;

  Time begin_of(Row b) const { return forwards ? Time{problem.lifetimes[b].first} : -Time{problem.lifetimes[b].last}; }
  Time end_of(Row b) const { return forwards ? Time{problem.lifetimes[b].last} : -Time{problem.lifetimes[b].first}; }
};

/// What is alive at one instant of a sweep, in order of its offsets, and the gaps between.
class Front {
 public:
  Front(const Problem& problem, bool forwards, Bytes enough, std::vector<Bytes>& offsets)
      : problem_(problem),
        times_{problem, forwards},
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
    mean_size_ = sizes / problem.count();
    add_gap(ground());
  }

  void prefer(const Preference& preference) {
    worth_ = preference.together * mean_size_;
    reuse_ = preference.reuse * mean_size_;
  }

  void go_on_from(const Front& other) {
    above_ = other.above_;
    below_ = other.below_;
    gaps_ = other.gaps_;
  }

  /// Bytes: small gaps are lost, large ones will be used.
  double lost() const {
    double sum = 0;
    for (const auto& [gap, under] : gaps_)
      if (above_[under] != ground()) sum += lost(gap, mean_size_ / 2);
    return sum;
  }

  /// Adds a buffer that has been placed, above all others.
  void stack(Row b) { insert(b, below_[ground()]); }

  /// Returns the end of the buffer.
  Bytes place(Row b) {
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
    return end_of_extent(b);
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

  /// Bytes lost; of the gap above everything, of what is left up to `enough_`, or else many.
  double left_over(Bytes gap, Row under, Bytes size) const {
    if (above_[under] != ground()) return lost(gap - size, reuse_);
    constexpr double many = 1e20;
    const Bytes end = end_of_extent(under) + size;
    return end <= enough_ ? lost(enough_ - end, reuse_) : many;
  }
  static double lost(Bytes left, double reuse) {
    const auto bytes = static_cast<double>(left.count);
    const double uses = reuse > 0 ? 1 + bytes / reuse : 1;
    return bytes / (uses * uses);
  }

  /// How far apart two buffers end, from 0 to 1, in mean lifetimes.
  double apart(Row b, Row neighbour) const {
    constexpr double unknown = 0.3;  // next to nothing: neither good nor bad
    if (neighbour == ground()) return unknown;
    return std::min(1.0, static_cast<double>(std::abs(times_.end_of(b) - times_.end_of(neighbour))) / mean_lifetime_);
  }

  const Problem& problem_;
  Times times_;
  Bytes enough_;
  std::vector<Bytes>& offsets_;
  double mean_lifetime_ = 0, mean_size_ = 0, worth_ = 0, reuse_ = 0;
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

/// One way to stack what is alive at the busiest instant, and what a sweep in each direction makes of it.
class Outward {
 public:
  Outward(const Problem& problem, std::uint32_t busiest, bool by_end) : problem_(problem), offsets_(problem.count()) {
    std::vector<Row> rest;
    for (Row b = 0; b < problem.count(); ++b)
      (problem.lifetimes[b].overlaps({busiest, busiest}) ? stack_ : rest).push_back(b);
    std::ranges::stable_sort(stack_, std::less{},
                             [&](Row b) { return by_end ? ~problem.lifetimes[b].last : problem.lifetimes[b].first; });
    for (const Row b : stack_) {
      offsets_[b] = top_;
      top_ += problem.sizes[b];
    }
    for (Half& half : halves_) {
      const bool forwards = &half == halves_.data();
      const Times times{problem, forwards};
      const Time from = forwards ? Time{busiest} : -Time{busiest};
      std::ranges::copy_if(rest, std::back_inserter(half.begins), [&](Row b) { return times.begin_of(b) > from; });
      half.ends = half.begins;
      half.ends.insert(half.ends.end(), stack_.begin(), stack_.end());
      // Of what begins together, the largest first.
      std::ranges::stable_sort(half.begins, std::less{}, [&](Row b) {
        return std::pair{times.begin_of(b), ~problem.sizes[b].count};
      });
      std::ranges::stable_sort(half.ends, std::less{}, [&](Row b) { return times.end_of(b); });
    }
  }

  /// What begins after the busiest instant, or what ends before it. If the peak is not below `below`, not all of it.
  struct Swept {
    std::vector<Bytes> offsets;  // in order of begin
    Bytes peak;
  };
  /// By all preferences for some time, then on from where one of them lost least.
  Swept sweep(bool forwards, std::span<const Preference> preferences, Bytes enough, Bytes below) const {
    constexpr std::size_t stretch = 800;  // buffers
    Swept swept{.offsets = {}, .peak = top_};
    const Half& half = halves_[forwards ? 0 : 1];
    std::vector<Bytes> offsets = offsets_;
    Front front(problem_, forwards, enough, offsets);
    for (const Row b : stack_) front.stack(b);
    Front trial = front, best = front;
    std::vector<Bytes> tried;
    for (std::size_t begin = 0, ended = 0; begin < half.begins.size() && swept.peak < below; begin += stretch) {
      const std::span rows = std::span(half.begins).subspan(begin, std::min(stretch, half.begins.size() - begin));
      std::pair least{Bytes{}, std::numeric_limits<double>::infinity()};  // above `enough`, lost
      std::size_t ended_after = ended;
      Bytes peak;
      for (const Preference& preference : preferences) {
        trial.go_on_from(front);
        trial.prefer(preference);
        std::size_t end = ended;
        const Bytes top = place(rows, trial, half.ends, end, Times{problem_, forwards});
        const std::pair cost{std::max(top, enough) - enough, trial.lost()};
        if (&preference != preferences.data() && cost >= least) continue;
        least = cost;
        ended_after = end;
        peak = top;
        best.go_on_from(trial);
        tried.clear();
        for (const Row b : rows) tried.push_back(offsets[b]);
      }
      for (std::size_t i = 0; i < rows.size(); ++i) offsets[rows[i]] = tried[i];
      swept.offsets.insert(swept.offsets.end(), tried.begin(), tried.end());
      swept.peak = std::max(swept.peak, peak);
      front.go_on_from(best);
      ended = ended_after;
    }
    return swept;
  }

  Placement joined(const Swept& after, const Swept& before) const {
    Placement placement{.offsets = offsets_, .peak = std::max(after.peak, before.peak)};
    for (const auto* swept : {&after, &before}) {
      const std::vector<Row>& begins = halves_[swept == &after ? 0 : 1].begins;
      for (std::size_t i = 0; i < begins.size(); ++i) placement.offsets[begins[i]] = swept->offsets[i];
    }
    return placement;
  }

 private:
  /// Returns the highest end. `ended` is the number of those that have left.
  static Bytes place(std::span<const Row> rows, Front& front, const std::vector<Row>& ends, std::size_t& ended,
                     const Times& times) {
    Bytes top;
    for (const Row b : rows) {
      for (; times.end_of(ends[ended]) < times.begin_of(b); ++ended) front.remove(ends[ended]);
      top = std::max(top, front.place(b));
    }
    return top;
  }

  struct Half {
    std::vector<Row> begins, ends;  // in order of a sweep
  };

  const Problem& problem_;
  std::vector<Bytes> offsets_;  // of the stack
  std::vector<Row> stack_;
  Bytes top_;
  std::array<Half, 2> halves_;  // forwards, backwards
};

}  // namespace

Placement place_outward(const Problem& problem, std::span<const Preference> preferences, Bytes enough, Bytes below,
                        unsigned threads) {
  Placement best{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  if (problem.count() == 0) return best;
  best.peak = below;
  const std::uint32_t busiest = busiest_section(problem);
  std::array<std::optional<Outward>, 2> ways;
  for (const Preference& preference : preferences)
    if (std::optional<Outward>& way = ways[preference.by_end ? 0 : 1]; !way)
      way.emplace(problem, busiest, preference.by_end);
  std::array<std::vector<Preference>, ways.size()> preferences_of;
  for (const Preference& preference : preferences) preferences_of[preference.by_end ? 0 : 1].push_back(preference);
  std::array<std::array<Outward::Swept, 2>, ways.size()> swept;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < 2 * ways.size(); i = next++)
      if (const auto& way = ways[i / 2])
        swept[i / 2][i % 2] = way->sweep(i % 2 == 0, preferences_of[i / 2], enough, below);
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min<std::size_t>(threads, 2 * ways.size()); ++i) others.emplace_back(work);
    work();
  }
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (const auto& [after, before] = swept[i]; ways[i] && std::max(after.peak, before.peak) < best.peak)
      best = ways[i]->joined(after, before);
  return best;
}

}  // namespace memreel::plan
