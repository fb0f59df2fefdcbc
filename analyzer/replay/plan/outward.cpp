// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/outward.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include "analyzer/replay/plan/local_search.h"

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

std::vector<Bytes> bytes_alive(const Problem& problem) {
  std::vector<Bytes> begin(problem.section_count), end(problem.section_count + 1);
  for (std::uint32_t b = 0; b < problem.count(); ++b) {
    begin[problem.lifetimes[b].first] += problem.sizes[b];
    end[problem.lifetimes[b].last + 1] += problem.sizes[b];
  }
  Bytes alive;
  for (std::uint32_t section = 0; section < problem.section_count; ++section) {
    alive += begin[section];
    alive -= end[section];
    begin[section] = alive;
  }
  return begin;
}

std::vector<std::uint32_t> stack_at(const Problem& problem, std::uint32_t section, double balance,
                                    std::vector<Bytes>& offsets) {
  std::vector<std::uint32_t> stack;
  for (std::uint32_t b = 0; b < problem.count(); ++b)
    if (problem.lifetimes[b].overlaps({section, section})) stack.push_back(b);
  std::ranges::stable_sort(stack, std::less{}, [&](std::uint32_t b) {
    const auto [first, last] = problem.lifetimes[b];
    const bool is_old = section - first >= balance * (last - first);
    return std::pair{is_old, is_old ? ~last : first};
  });
  Bytes top;
  for (const std::uint32_t b : stack) {
    offsets[b] = top;
    top += problem.sizes[b];
  }
  return stack;
}

namespace {

Bytes share_of(Bytes bytes, double share) {
  return {static_cast<std::uint64_t>(share * static_cast<double>(bytes.count))};
}

/// How much is alive, and until when.
class Profile {
 public:
  explicit Profile(const Problem& problem) : alive_(bytes_alive(problem)), reach_(problem.section_count) {
    for (const Lifetime& lifetime : problem.lifetimes)
      reach_[lifetime.first] = std::max(reach_[lifetime.first], lifetime.last);
    for (std::size_t i = 1; i < reach_.size(); ++i) reach_[i] = std::max(reach_[i], reach_[i - 1]);
  }

  Bytes most_alive(const Lifetime& during) const {
    return *std::max_element(alive_.begin() + during.first, alive_.begin() + during.last + 1);
  }

  /// The last section in which something is alive that has begun by `section`.
  std::uint32_t reach(std::uint32_t section) const { return reach_[section]; }

  /// The busiest instants between which nothing is alive near two of them, in order of time.
  std::vector<std::uint32_t> busiest(Bytes least) const {
    std::vector<std::uint32_t> sections(alive_.size());
    std::iota(sections.begin(), sections.end(), 0U);
    std::erase_if(sections, [&](std::uint32_t section) { return alive_[section] < least; });
    std::ranges::stable_sort(sections, std::greater{}, [&](std::uint32_t section) { return alive_[section]; });
    std::vector<std::uint32_t> found;
    for (const std::uint32_t section : sections) {
      const auto is_apart = [&](std::uint32_t other) {
        return apart(std::min(section, other), std::max(section, other), 2);
      };
      if (std::ranges::all_of(found, is_apart)) found.push_back(section);
    }
    std::ranges::sort(found);
    return found;
  }

  /// Whether what is alive at `a` or `b` lasts no longer than to a part of the way to the other.
  bool apart(std::uint32_t a, std::uint32_t b, std::uint32_t parts) const {
    const std::uint32_t part = (b - a) / parts;
    return reach_[a] < a + part && reach_[b - part] < b;
  }

  /// Some instants in the middle between two, those first at which the least is alive.
  std::vector<std::uint32_t> valleys(std::uint32_t a, std::uint32_t b) const {
    constexpr std::uint32_t most = 8;
    const std::uint64_t margin = 3 * std::uint64_t{b - a} / 10, width = b - a - 2 * margin;
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < most; ++i) {
      const auto at = [&](std::uint32_t n) {
        return alive_.begin() + static_cast<std::ptrdiff_t>(a + margin + width * n / most);
      };
      if (at(i) < at(i + 1))
        found.push_back(static_cast<std::uint32_t>(std::min_element(at(i), at(i + 1)) - alive_.begin()));
    }
    if (found.empty()) found.push_back(std::midpoint(a, b));
    std::ranges::stable_sort(found, std::less{}, [&](std::uint32_t section) { return alive_[section]; });
    return found;
  }

 private:
  std::vector<Bytes> alive_;          // by section
  std::vector<std::uint32_t> reach_;  // by section
};

/// What is swept from one instant.
struct Part {
  Course forwards, backwards;
};

class Joined {
 public:
  Joined(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits)
      : problem_(problem),
        preferences_(preferences),
        limits_(limits),
        below_(std::min(limits.below, limits.enough + 1_B)),
        profile_(problem),
        instants_(profile_.busiest(share_of(problem.load, busy))),
        parts_(instants_.size()),
        offsets_(problem.count()) {}

  /// Where more is alive, gaps are small compared with LOAD, and a sweep from one instant is enough.
  bool suits() const { return parts_.size() > 1 && problem_.mean_alive() <= most_alive; }

  Placement run(unsigned threads) {
    cut();
    for_each_part(threads, [&](std::size_t i) {
      sweep_part(parts_[i].forwards);
      if (i == 0) sweep_part(parts_[i].backwards);
    });
    for_each_part(threads, [&](std::size_t i) {
      if (i > 0 && !failed_ && !join(i)) failed_ = true;
    });
    Bytes peak;
    for (Row b = 0; b < problem_.count(); ++b) peak = std::max(peak, end_of(b));
    return {.offsets = std::move(offsets_), .peak = failed_ ? limits_.below : std::min(peak, limits_.below)};
  }

 private:
  static constexpr std::uint64_t most_alive = 2000;
  static constexpr double busy = 0.98;       // of LOAD: where a sweep from elsewhere is likely to end too high
  static constexpr double immovable = 0.97;  // of LOAD: what is alive when so much is, is not moved

  void cut() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].forwards.stack = stack_at(problem_, instants_[i], balance(i), offsets_);
      parts_[i].backwards.stack = parts_[i].forwards.stack;
      parts_[i].backwards.forwards = false;
      if (i > 0) valleys_.push_back(profile_.valleys(instants_[i - 1], instants_[i]));
    }
    // What is swept forwards goes around what it reaches of the next stack.
    for (std::size_t i = 0; i < valleys_.size(); ++i) {
      const std::uint32_t reach = profile_.reach(std::ranges::max(valleys_[i]));
      std::ranges::copy_if(parts_[i + 1].forwards.stack, std::back_inserter(parts_[i].forwards.awaited),
                           [&](Row b) { return problem_.lifetimes[b].first <= reach; });
    }
    for (Row b = 0; b < problem_.count(); ++b) {
      const auto [first, last] = problem_.lifetimes[b];
      const auto next = static_cast<std::size_t>(std::ranges::lower_bound(instants_, first) - instants_.begin());
      if (next < parts_.size() && last >= instants_[next]) continue;  // in its stack
      // What begins between two valleys may be swept in either direction.
      if (next == 0 || (next < parts_.size() && first > std::ranges::min(valleys_[next - 1])))
        parts_[next].backwards.begins.push_back(b);
      if (next == parts_.size() || (next > 0 && first <= std::ranges::max(valleys_[next - 1])))
        parts_[next - 1].forwards.begins.push_back(b);
    }
  }

  /// Of the stack at an instant: towards another that is not far, it has to leave few gaps.
  double balance(std::size_t i) const {
    const auto is_near = [&](std::size_t before) {
      return !profile_.apart(instants_[before], instants_[before + 1], 3);
    };
    const bool before = i > 0 && is_near(i - 1), after = i + 1 < instants_.size() && is_near(i);
    return before == after ? 0.5 : after ? 0.2 : 1.1;
  }

  void for_each_part(unsigned threads, const auto& visit) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < parts_.size(); i = next++) visit(i);
    };
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min<std::size_t>(threads, parts_.size()); ++i) others.emplace_back(work);
    work();
  }

  void sweep_part(const Course& course) {
    const std::uint64_t again = limits_.again * course.begins.size() / problem_.count();
    const Swept swept = sweep(
        problem_, course, offsets_, preferences_,
        {.enough = limits_.enough, .below = course.awaited.empty() ? below_ : SweepLimits{}.below, .again = again});
    if (swept.offsets.size() < swept.rows.size())
      failed_ = true;
    else
      keep(swept);
  }

  void keep(const Swept& swept) {
    for (std::size_t n = 0; n < swept.rows.size(); ++n) offsets_[swept.rows[n]] = swept.offsets[n];
  }

  /// Sweeps backwards from instant `i` to what has been swept forwards from the one before. Returns whether all fits.
  bool join(std::size_t i) {
    const std::vector<std::uint32_t>& valleys = valleys_[i - 1];
    // Where least is alive, the most room is left for what does not fit at once.
    Course course = met_at(i, valleys.front());
    Swept swept = swept_around(course);
    const std::size_t most = 1 + problem_.count() / 8 / std::max<std::size_t>(course.begins.size(), 1);
    for (std::size_t n = 1; n < std::min(valleys.size(), most) && swept.peak > limits_.enough; ++n) {
      Course other = met_at(i, valleys[n]);
      Swept found = swept_around(other);
      if (found.peak > limits_.enough) continue;
      course = std::move(other);
      swept = std::move(found);
    }
    keep(swept);
    const std::vector<Row>&before = parts_[i - 1].forwards.begins, &stack = parts_[i - 1].forwards.stack;
    std::vector<Row> rows;
    for (const std::vector<Row>* some :
         std::array<const std::vector<Row>*, 4>{&stack, &before, &course.begins, &course.stack})
      rows.insert(rows.end(), some->begin(), some->end());
    std::ranges::sort(rows, std::less{}, [&](Row b) { return std::pair{problem_.lifetimes[b].first, b}; });
    rows.erase(std::ranges::unique(rows).begin(), rows.end());
    return fit_in(std::move(rows), {instants_[i - 1] + 1, instants_[i] - 1});
  }

  /// What is swept backwards to a valley before instant `i`.
  Course met_at(std::size_t i, std::uint32_t valley) const {
    Course course{.forwards = false, .stack = parts_[i].backwards.stack, .begins = {}, .awaited = {}};
    std::ranges::copy_if(parts_[i].backwards.begins, std::back_inserter(course.begins),
                         [&](Row b) { return problem_.lifetimes[b].first > valley; });
    const Course& before = parts_[i - 1].forwards;
    for (const std::vector<Row>* some : {&before.stack, &before.begins})
      std::ranges::copy_if(*some, std::back_inserter(course.awaited), [&](Row b) {
        return problem_.lifetimes[b].first <= valley && problem_.lifetimes[b].last > valley;
      });
    return course;
  }

  Swept swept_around(const Course& course) const {
    return sweep(problem_, course, offsets_, preferences_, {.enough = limits_.enough});
  }

  /// Fits in what is too high, moving what is alive only within `between`. The rows are in order of begin.
  bool fit_in(std::vector<Row> rows, Lifetime between) {
    const auto is_high = [&](Row b) { return end_of(b) > limits_.enough; };
    const auto is_within = [&](Row b, const Lifetime& window) {
      return problem_.lifetimes[b].first >= window.first && problem_.lifetimes[b].last <= window.last;
    };
    Lifetime window{between.last, between.first};
    std::uint32_t longest = 0;
    for (const Row b : rows) {
      longest = std::max(longest, problem_.lifetimes[b].length());
      if (!is_high(b) || !is_within(b, between)) continue;
      window.first = std::min(window.first, problem_.lifetimes[b].first);
      window.last = std::max(window.last, problem_.lifetimes[b].last);
    }
    if (window.last < window.first) return true;
    window.first -= std::min(longest, window.first - between.first);
    window.last += std::min(longest, between.last - window.last);
    std::erase_if(rows, [&](Row b) { return !problem_.lifetimes[b].overlaps(window); });
    const Bytes most = share_of(problem_.load, immovable);
    std::vector<Tenant> tenants;
    for (const Row b : rows) {
      const bool may_move = is_within(b, window), is_out = may_move && is_high(b);
      tenants.push_back({.lifetime = problem_.lifetimes[b],
                         .size = problem_.sizes[b],
                         .offset = offsets_[b],
                         .stays = !is_out && (!may_move || profile_.most_alive(problem_.lifetimes[b]) > most),
                         .is_out = is_out});
    }
    constexpr std::uint64_t most_pairs = 8'000'000;  // half a second
    if (!make_room(tenants, limits_.enough, most_pairs)) return false;
    for (std::size_t n = 0; n < rows.size(); ++n)
      if (!tenants[n].stays) offsets_[rows[n]] = tenants[n].offset;
    return true;
  }

  Bytes end_of(Row b) const { return offsets_[b] + problem_.sizes[b]; }

  const Problem& problem_;
  std::span<const Preference> preferences_;
  SweepLimits limits_;
  Bytes below_;  // what each part has to end at
  Profile profile_;
  std::vector<std::uint32_t> instants_;
  std::vector<std::vector<std::uint32_t>> valleys_;  // between each and the next
  std::vector<Part> parts_;
  std::vector<Bytes> offsets_;  // by row; of each, one part writes it at a time
  std::atomic<bool> failed_ = false;
};

}  // namespace

Placement place_joined(const Problem& problem, std::span<const Preference> preferences, const SweepLimits& limits,
                       unsigned threads) {
  Joined joined(problem, preferences, limits);
  if (!joined.suits()) return {.offsets = std::vector<Bytes>(problem.count()), .peak = limits.below};
  return joined.run(threads);
}

}  // namespace memreel::plan
