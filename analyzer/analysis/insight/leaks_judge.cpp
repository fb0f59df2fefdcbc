// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/leaks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace memreel {
namespace {

// Steady growth in twice the fewest rounds is enough.
constexpr std::uint32_t enough_rounds = 8;
constexpr double steady_r2 = 0.8;
// The share of the rounds over which growth must last: a shorter one may be an unfinished phase.
constexpr double least_span = 0.2;
// How far births thin out, in standard deviations of Laplace's trend test: one steady leak in 100 does so by chance;
// one in 20 beyond the second limit, which applies to births that each have their own size.
constexpr double thinning = -2.33;
constexpr double thinning_of_one_each = -1.645;

// The share of the accused allocations' growth that live memory must have grown by.
constexpr double most = 0.6;
// At most this share of the accused may be innocent, and at most this share of the leaks may be missed. Both leave some
// margin to what is promised (docs/leaks.md: precision 85 %, recall 95 %).
constexpr double innocent_share = 0.12;
constexpr double missed_share = 0.03;

/// A least-squares line through points.
class LineFit {
 public:
  void add(double x, double y) {
    n_ += 1;
    sx_ += x;
    sy_ += y;
    sxx_ += x * x;
    sxy_ += x * y;
    syy_ += y * y;
  }

  double count() const { return n_; }
  double mean() const { return n_ == 0 ? 0 : sy_ / n_; }  // of y
  /// 0 unless there are points at two places.
  double slope() const { return spread() <= 0 ? 0 : covariance() / spread(); }
  /// The share of y's variance that the line explains, 0 to 1; 0 if there is nothing to explain.
  double r2() const {
    const double height = n_ * syy_ - sy_ * sy_;
    // Rounding can exceed 1 where all points lie on a line.
    return spread() <= 0 || height <= 0 ? 0 : std::min(1.0, covariance() * covariance() / (spread() * height));
  }

 private:
  double spread() const { return n_ * sxx_ - sx_ * sx_; }
  double covariance() const { return n_ * sxy_ - sx_ * sy_; }

  double n_ = 0, sx_ = 0, sy_ = 0, sxx_ = 0, sxy_ = 0, syy_ = 0;
};

using Span = std::span<const Held>;

std::uint32_t rounds_of_birth(Span held) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < held.size(); ++i) count += i == 0 || held[i].birth != held[i - 1].birth;
  return count;
}

// In size classes (below): a factor of four.
constexpr int quite_another = 8;

/// Sizes within about a fifth of each other. Four classes are a factor of two.
int size_class(Bytes size) { return static_cast<int>(std::lround(4 * std::log2(static_cast<double>(size.count) + 1))); }

/// The lifetimes of a site's freed allocations.
class Lives {
 public:
  /// `teardown`: frees in this round or later only end the program, and say nothing about lifetimes. `earlier`: how
  /// long some lived that were freed before the first round.
  Lives(Span held, std::uint32_t teardown, std::uint32_t earlier) : earlier_(earlier), longest_(earlier) {
    for (const Held& h : held) {
      if (h.survives() || h.death >= teardown) continue;
      longest_ = std::max(longest_, h.death - h.birth);
      by_class_[size_class(h.size)].push_back(h.death - h.birth);
      deaths_.push_back(h.death);
      births_.push_back(h.birth);
    }
    for (auto& [size, lives] : by_class_) std::sort(lives.begin(), lives.end());
  }

  std::uint32_t longest() const { return longest_; }
  bool any() const { return earlier_ != 0 || !deaths_.empty(); }
  /// The number of allocations of about this size that lived longer than `age`.
  std::uint64_t longer_than(std::uint32_t age, Bytes size) const {
    std::uint64_t count = 0;
    for (int c = size_class(size) - 1; c <= size_class(size) + 1; ++c) {
      const auto lives = by_class_.find(c);
      if (lives == by_class_.end()) continue;
      count += static_cast<std::uint64_t>(lives->second.end() -
                                          std::upper_bound(lives->second.begin(), lives->second.end(), age));
    }
    return count;
  }
  /// Whether allocations from many rounds are freed at a time.
  bool in_bursts() const { return 3 * distinct(deaths_) <= distinct(births_); }

 private:
  static std::size_t distinct(std::vector<std::uint32_t> values) {
    std::sort(values.begin(), values.end());
    return static_cast<std::size_t>(std::unique(values.begin(), values.end()) - values.begin());
  }

  std::uint32_t earlier_, longest_;
  std::map<int, std::vector<std::uint32_t>> by_class_;
  std::vector<std::uint32_t> births_, deaths_;
};

/// Average number of allocations that were live in rounds [from, to).
double average_live(Span held, std::uint32_t from, std::uint32_t to) {
  double sum = 0;
  for (const Held& h : held) {
    const std::uint32_t begin = std::max(h.birth, from);
    const std::uint32_t end = std::min(h.death, to);
    if (end > begin) sum += end - begin;
  }
  return to > from ? sum / (to - from) : 0;
}

/// One group of allocations under judgement: a whole population or a part of it.
class Case {
 public:
  /// `earlier_life`: of the population.
  Case(Span held, const Rounds& rounds, std::uint32_t earlier_life)
      : held_(held),
        count_(rounds.count()),
        lives_(held, count_, earlier_life),
        // Allocations after the last step belong to no round.
        now_(rounds.last_is_open || count_ == 0 ? count_ : count_ + 1) {
    for (const Held& h : held) {
      if (h.survives())
        (h.earlier ? earlier_ : rounds.unfinished && h.birth >= count_ ? unfinished_ : kept_).push_back(h);
    }
  }

  std::vector<Judged> judged() const {
    std::vector<Held> from_start, later;
    split_off_start(from_start, later);
    std::vector<Judged> all;
    const LeakVerdict verdict = verdict_on(later);
    if (verdict == LeakVerdict::leak || verdict == LeakVerdict::suspected) {
      std::vector<Held> accused, passing;
      divide(later, accused, passing);
      std::vector<Held> alike, other;
      divide_earlier(accused, alike, other);
      add(all, verdict, accused);
      all.back().earlier = std::move(alike);
      add(all, LeakVerdict::cache, passing);
      add(all, plateau(), other);
    } else {
      add(all, verdict, later);
      add(all, plateau(), earlier_);
    }
    add(all, LeakVerdict::resident, from_start);
    add(all, LeakVerdict::cache, unfinished_);
    return all;
  }

 private:
  void add(std::vector<Judged>& all, LeakVerdict verdict, const std::vector<Held>& kept) const {
    if (kept.empty()) return;
    Growth growth = growth_of(kept);
    growth.longest_life = lives_.longest();
    all.push_back({.verdict = verdict, .growth = growth, .kept = kept});
  }

  /// What is of about the size of some that are accused belongs to them.
  void divide_earlier(const std::vector<Held>& accused, std::vector<Held>& alike, std::vector<Held>& other) const {
    std::set<int> sizes;
    for (const Held& h : accused)
      for (const int near : {-1, 0, 1}) sizes.insert(size_class(h.size) + near);
    for (const Held& h : earlier_) (sizes.contains(size_class(h.size)) ? alike : other).push_back(h);
  }

  std::uint32_t age(const Held& h) const { return h.birth >= now_ ? 0 : now_ - 1 - h.birth; }

  /// One-time allocations share a site with others: the workspace of the first matrix product is allocated below the
  /// line that calls it, as are its results. Of what was kept in the first tenth of the rounds, attributes to the
  /// start what has no size that was kept since, and either has a very different size or is more than is ever kept in
  /// one round.
  void split_off_start(std::vector<Held>& from_start, std::vector<Held>& later) const {
    const std::uint32_t start = kept_.empty() ? 0 : kept_.front().birth + count_ / 10;
    std::set<int> seen;
    std::uint32_t usual = 0, in_round = 0, last = Held::alive;
    for (const Held& h : kept_) {
      if (h.birth <= start) continue;
      seen.insert(size_class(h.size));
      in_round = h.birth == last ? in_round + 1 : 1;
      usual = std::max(usual, in_round);
      last = h.birth;
    }
    if (seen.empty()) {
      later = kept_;
      return;
    }
    const auto is_seen = [&](int c) { return seen.contains(c - 1) || seen.contains(c) || seen.contains(c + 1); };
    const auto is_far = [&](int c) { return c > *seen.rbegin() + quite_another || c < *seen.begin() - quite_another; };
    std::map<std::uint32_t, std::uint32_t> count_in;
    for (const Held& h : kept_) count_in[h.birth] += h.birth <= start;
    for (const Held& h : kept_) {
      const int size = size_class(h.size);
      const bool is_of_start = h.birth <= start && !is_seen(size) && (is_far(size) || count_in[h.birth] > usual);
      if (is_of_start) --count_in[h.birth];
      (is_of_start ? from_start : later).push_back(h);
    }
  }

  LeakVerdict verdict_on(const std::vector<Held>& kept) const {
    if (count_ < fewest_rounds || rounds_of_birth(kept) < fewest_rounds)
      return kept.size() > 1 ? plateau() : LeakVerdict::resident;

    // Those older than any freed allocation ever became.
    std::vector<Held> old;
    for (const Held& h : kept) {
      if (is_old(h)) old.push_back(h);
    }
    if (rounds_of_birth(old) < fewest_rounds) return plateau();

    const std::uint32_t window = now_ - 1 - lives_.longest();  // they were allocated before this round
    if (has_stopped(old, window)) return lives_.any() ? plateau() : LeakVerdict::warm_up;
    if (thins_out(old, window) || !grows(old, window)) return LeakVerdict::cache;
    const Growth growth = growth_of(old);
    if (growth.last - growth.first + 1 < least_span * count_) return LeakVerdict::warm_up;
    if (growth.rounds >= enough_rounds && growth.r2 >= steady_r2) return LeakVerdict::leak;
    // Where allocations live for many rounds, their number goes up and down, and a rise appears quickly.
    return lives_.longest() > 1 ? plateau() : LeakVerdict::suspected;
  }

  LeakVerdict plateau() const {
    if (!lives_.any()) return LeakVerdict::resident;
    return lives_.in_bursts() ? LeakVerdict::sawtooth : LeakVerdict::cache;
  }

  /// No birth for more than three times the longest earlier pause.
  static bool has_stopped(const std::vector<Held>& old, std::uint32_t window) {
    std::uint32_t longest = 1;
    for (std::size_t i = 1; i < old.size(); ++i) longest = std::max(longest, old[i].birth - old[i - 1].birth);
    const std::uint32_t since = window > old.back().birth ? window - 1 - old.back().birth : 0;
    return since > 3 * longest + 1;
  }

  /// Laplace's trend test: births at a constant rate have their mean in the middle of the observed time. One birth of
  /// each size resembles a cache keyed by shape, and is classified as one sooner.
  static bool thins_out(const std::vector<Held>& old, std::uint32_t window) {
    const double begin = old.front().birth;
    const double width = std::max(1.0, window - begin);
    double sum = 0;
    for (const Held& h : old) sum += h.birth + 0.5 - begin;
    const double mean = sum / static_cast<double>(old.size());
    const double rounds = rounds_of_birth(old);
    const double trend = (mean - width / 2) / (width * std::sqrt(1 / (12 * rounds)));
    return trend < thinning || (trend < thinning_of_one_each && is_one_of_each(old));
  }

  static bool is_one_of_each(const std::vector<Held>& old) {
    std::vector<Bytes> sizes;
    for (const Held& h : old) sizes.push_back(h.size);
    std::sort(sizes.begin(), sizes.end());
    return std::adjacent_find(sizes.begin(), sizes.end()) == sizes.end();
  }

  /// Whether total live memory grows over time, as it must if some is never freed: by most of what these births alone
  /// would have added between the middle of the rounds and their last fifth.
  bool grows(const std::vector<Held>& old, std::uint32_t window) const {
    if (!lives_.any()) return true;
    const std::uint32_t end = now_;
    const double added = average_live(held_, end - end / 5, end) - average_live(held_, end * 3 / 10, end / 2);
    const double rate = static_cast<double>(old.size()) / std::max(1U, window - old.front().birth);
    return added >= most * rate * end / 2;
  }

  bool is_old(const Held& h) const { return h.birth < count_ && age(h) > lives_.longest(); }

  /// Accuses old allocations. A younger one may yet be freed: the probability that it stays follows from how many of
  /// its size stay per round, and how many live that long before being freed. Also accuses the likeliest of these:
  /// as long as too many leaks are expected among the others, and at most a certain share of all accused is expected to
  /// be innocent.
  void divide(const std::vector<Held>& kept, std::vector<Held>& accused, std::vector<Held>& passing) const {
    std::map<int, double> stay;  // by size class
    for (const Held& h : kept) {
      if (is_old(h)) stay[size_class(h.size)] += 1;
    }
    std::vector<std::pair<double, Held>> young;  // by the probability of being innocent
    for (const Held& h : kept) {
      if (is_old(h))
        accused.push_back(h);
      else
        young.emplace_back(innocence(h, stay), h);
    }
    std::stable_sort(young.begin(), young.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    double innocent = 0, missed = 0;
    for (const auto& [likely, held] : young) missed += 1 - likely;
    const double most_missed = missed_share * (missed + static_cast<double>(accused.size()));
    for (const auto& [likely, held] : young) {
      innocent += likely;
      const bool is_sure_enough = innocent <= innocent_share * static_cast<double>(accused.size() + 1) &&
                                  (likely <= innocent_share || missed > most_missed);
      missed -= 1 - likely;
      (is_sure_enough && likely < 1 ? accused : passing).push_back(held);
    }
    const auto by_birth = [](const Held& a, const Held& b) { return a.id < b.id; };
    std::sort(accused.begin(), accused.end(), by_birth);
    std::sort(passing.begin(), passing.end(), by_birth);
  }

  double innocence(const Held& h, const std::map<int, double>& stay) const {
    double siblings = 0;
    for (int c = size_class(h.size) - 1; c <= size_class(h.size) + 1; ++c) {
      const auto found = stay.find(c);
      if (found != stay.end()) siblings += found->second;
    }
    // Those that stay were allocated in rounds longer ago than the longest life; those that are freed, in any.
    const double staying = siblings / (count_ - std::min(count_ - 1, lives_.longest()));
    const double going = static_cast<double>(lives_.longer_than(age(h), h.size)) / count_;
    if (siblings == 0 && going == 0) return lives_.longer_than(age(h) - std::min(age(h), 1U), h.size) > 0 ? 1 : 0;
    return going / (staying + going);
  }

  Span held_;
  std::uint32_t count_;
  Lives lives_;
  std::uint32_t now_;
  std::vector<Held> kept_;
  std::vector<Held> earlier_;     // kept, of unknown rounds
  std::vector<Held> unfinished_;  // kept, of a round that was cut off: it would have freed them
};

bool is_accusation(const Judged& judged) {
  return judged.verdict == LeakVerdict::leak || judged.verdict == LeakVerdict::suspected;
}

bool accuses(const std::vector<Judged>& judged) { return std::any_of(judged.begin(), judged.end(), is_accusation); }

/// Splits the population into parts of one size each, for sizes kept in enough rounds; the remainder is one part.
std::vector<std::vector<Held>> by_size(const Population& population) {
  std::map<Bytes, std::pair<std::uint32_t, std::uint32_t>> seen;  // size -> rounds in which some was kept, the last
  for (const Held& h : population.held) {
    if (!h.survives() || h.earlier) continue;
    auto& [rounds, last] = seen.try_emplace(h.size, 0, Held::alive).first->second;
    rounds += last != h.birth;
    last = h.birth;
  }
  std::map<Bytes, std::vector<Held>> parts;
  std::vector<Held> rest;
  for (const Held& h : population.held) {
    const auto found = seen.find(h.size);
    if (found != seen.end() && found->second.first >= fewest_rounds)
      parts[h.size].push_back(h);
    else
      rest.push_back(h);
  }
  std::vector<std::vector<Held>> all;
  for (auto& [size, part] : parts) all.push_back(std::move(part));
  if (!rest.empty()) all.push_back(std::move(rest));
  return all;
}

/// Where stacks don't distinguish sites, a leak of several sizes falls into parts, and a single part may look as if it
/// had ended. A part that was never freed either, and lasted half as long as the accused ones, belongs to them.
void join_sisters(std::vector<Judged>& judged, const std::vector<std::vector<Held>>& parts) {
  std::set<Bytes> freed;
  for (const std::vector<Held>& part : parts) {
    for (const Held& h : part) {
      if (!h.survives()) freed.insert(h.size);
    }
  }
  std::uint32_t span = 0;
  for (const Judged& j : judged) {
    if (is_accusation(j)) span = std::max(span, j.growth.last - j.growth.first);
  }
  for (Judged& j : judged) {
    if (is_accusation(j) || j.growth.rounds < fewest_rounds || 2 * (j.growth.last - j.growth.first) < span) continue;
    if (std::none_of(j.kept.begin(), j.kept.end(), [&](const Held& h) { return freed.contains(h.size); }))
      j.verdict = LeakVerdict::suspected;
  }
}

constexpr std::uint32_t enough_swelling_rounds = 16;
constexpr double least_swelling_span = 0.5;  // of all rounds
constexpr double least_growth = 2;           // from a quarter of the way to the end
constexpr double deepest_fall = 0.9;         // share of the highest before
constexpr double steady_swelling_r2 = 0.8;

struct HeldAt {
  Bytes bytes;
  std::int64_t count = 0;
};

/// The bytes held at the end of each round.
std::vector<HeldAt> held_after_rounds(const Population& population, std::uint32_t rounds) {
  std::vector<HeldAt> held(rounds), gone(rounds);
  for (const Held& h : population.held) {
    if (h.birth >= rounds) continue;
    held[h.birth].bytes += h.size;
    ++held[h.birth].count;
    if (h.death >= rounds) continue;
    gone[h.death].bytes += h.size;
    ++gone[h.death].count;
  }
  HeldAt now;
  for (std::uint32_t r = 0; r < rounds; ++r) {
    now.bytes += held[r].bytes;
    now.bytes -= gone[r].bytes;
    now.count += held[r].count - gone[r].count;
    held[r] = now;
  }
  return held;
}

}  // namespace

Growth growth_of(std::span<const Held> kept) {
  Growth growth{.rounds = rounds_of_birth(kept)};
  if (kept.empty() || kept.front().earlier) return {};
  growth.first = kept.front().birth;
  growth.last = kept.back().birth;
  LineFit line;
  double bytes = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    bytes += static_cast<double>(kept[i].size.count);
    if (i + 1 < kept.size() && kept[i + 1].birth == kept[i].birth) continue;
    line.add(static_cast<double>(kept[i].birth - growth.first), bytes);
  }
  growth.slope = line.slope();
  growth.r2 = line.r2();
  return growth;
}

std::vector<Judged> judge(const Population& population, const Rounds& rounds) {
  const bool has_stack = population.stack != StackId::none;
  std::vector<Judged> whole = Case(population.held, rounds, population.earlier_life).judged();
  if (has_stack && accuses(whole)) return whole;
  // Where no stack was recorded, all sites look alike, and the size distinguishes them.
  const std::vector<std::vector<Held>> parts = by_size(population);
  if (parts.size() < 2) return whole;
  std::vector<Judged> all;
  bool is_certain = false;
  for (const std::vector<Held>& part : parts) {
    for (Judged& judged : Case(part, rounds, population.earlier_life).judged()) {
      is_certain = is_certain || judged.verdict == LeakVerdict::leak;
      all.push_back(std::move(judged));
    }
  }
  // With many parts, one may look suspicious by chance.
  if (has_stack ? !is_certain : !accuses(all)) return whole;
  if (!has_stack) join_sisters(all, parts);
  return all;
}

std::optional<Swelling> swelling_of(const Population& population, const Rounds& rounds) {
  const std::uint32_t count = rounds.count();
  if (population.stack == StackId::none || population.frees == 0 || !population.has_survivors() ||
      count < enough_swelling_rounds)
    return std::nullopt;
  const std::vector<HeldAt> held = held_after_rounds(population, count);
  const auto begin = static_cast<std::uint32_t>(
      std::ranges::find_if(held, [](const HeldAt& h) { return h.count != 0; }) - held.begin());
  if (begin == count || count - begin < least_swelling_span * count) return std::nullopt;

  Swelling swelling{.growth = {.first = begin},
                    .at_first = held[begin].bytes,
                    .at_last = held.back().bytes,
                    .at_a_time = static_cast<std::size_t>(held.back().count)};
  LineFit line;
  Bytes most;
  for (std::uint32_t r = begin; r < count; ++r) {
    const Bytes bytes = held[r].bytes;
    if (static_cast<double>(bytes.count) < deepest_fall * static_cast<double>(most.count)) return std::nullopt;
    if (bytes > most) {
      ++swelling.growth.rounds;
      swelling.growth.last = r;
      most = bytes;
    }
    line.add(r, static_cast<double>(bytes.count));
  }
  const std::uint32_t span = count - begin;
  const std::uint32_t usual_gap = span / std::max(1U, swelling.growth.rounds) + 1;
  const bool has_stopped = count - 1 - swelling.growth.last > 3 * usual_gap;
  const HeldAt early = held[begin + span / 4];
  const bool is_larger =
      static_cast<double>(held.back().bytes.count) >= least_growth * static_cast<double>(early.bytes.count);
  // More live ones make a queue.
  if (swelling.growth.rounds < enough_swelling_rounds || has_stopped || !is_larger || held.back().count > early.count)
    return std::nullopt;
  swelling.growth.slope = line.slope();
  swelling.growth.r2 = line.r2();
  for (const Held& h : population.held)
    if (!h.survives()) swelling.growth.longest_life = std::max(swelling.growth.longest_life, h.death - h.birth);
  if (swelling.growth.r2 < steady_swelling_r2) return std::nullopt;
  return swelling;
}

bool others_grow(const Trace& trace, HeapId heap, const Rounds& rounds, StackId site) {
  struct Series {
    std::uint32_t round = 0;
    Bytes asked;  // requested in this round
    LineFit line;
  };
  const Events& events = trace.events;
  std::vector<Series> all_series(trace.tables.stacks.size());
  const auto end_round = [](Series& series) {
    if (series.asked != 0_B) series.line.add(series.round, static_cast<double>(series.asked.count));
    series.asked = {};
  };
  std::uint32_t round = 0;
  for (const std::uint32_t event : trace.events.begins()) {
    while (round < rounds.ends.size() && rounds.ends[round] <= event) ++round;
    const StackId stack = events.stack(event);
    if (stack == site || trace.tables[events.origin(event)].heap != heap) continue;
    Series& series = all_series[index(stack)];
    if (series.round != round) end_round(series);
    series.round = round;
    series.asked += events.size(event);
  }
  for (Series& series : all_series) end_round(series);
  return std::any_of(all_series.begin(), all_series.end(), [&](const Series& series) {
    const LineFit& line = series.line;
    return line.count() >= least_swelling_span * rounds.count() && line.r2() >= steady_swelling_r2 &&
           line.slope() * rounds.count() >= line.mean() / 2;
  });
}

}  // namespace memreel
