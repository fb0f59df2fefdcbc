// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "analyzer/replay/heap/address_index.h"

namespace memreel::plan {
namespace {

using Time = std::int64_t;  // a section, negative if time is swept backwards

constexpr Bytes endless{std::numeric_limits<std::uint64_t>::max()};

/// A course in order of time.
class Schedule {
 public:
  Schedule(const Problem& problem, const Course& course, const std::vector<Bytes>& offsets)
      : problem_(problem), forwards_(course.forwards), begins_(course.begins) {
    begins_.insert(begins_.end(), course.awaited.begin(), course.awaited.end());
    ends_ = begins_;
    ends_.insert(ends_.end(), course.stack.begin(), course.stack.end());
    // Of what begins together, the largest first.
    std::ranges::stable_sort(begins_, std::less{}, [&](Row b) {
      return std::pair{begin_of(b), ~problem.sizes[b].count};
    });
    std::ranges::stable_sort(ends_, std::less{}, [&](Row b) { return end_of(b); });
    number(course);
    if (course.awaited.empty()) return;
    awaited_at_.resize(problem.count());
    for (const Row b : course.awaited) {
      awaited_.push_back({.begin = offsets[b], .end = offsets[b] + problem.sizes[b], .from = begin_of(b)});
      awaited_at_[b] = offsets[b];
    }
    std::ranges::sort(awaited_, std::less{}, &Awaited::begin);
    Bytes highest;
    for (Awaited& each : awaited_) each.highest = highest = std::max(highest, each.end);
  }

  const Problem& problem() const { return problem_; }
  std::span<const Row> begins() const { return begins_; }
  std::span<const Row> ends() const { return ends_; }

  Time begin_of(Row b) const {
    return forwards_ ? Time{problem_.lifetimes[b].first} : -Time{problem_.lifetimes[b].last};
  }
  Time end_of(Row b) const { return forwards_ ? Time{problem_.lifetimes[b].last} : -Time{problem_.lifetimes[b].first}; }

  bool awaits() const { return !awaited_.empty(); }
  /// Where `b` is awaited.
  std::optional<Bytes> awaited_at(Row b) const { return awaits() ? awaited_at_[b] : std::nullopt; }
  /// Visits what is left of a gap when `b` begins, without what is awaited before it ends.
  void for_each_part(Row b, Bytes begin, Bytes end, const auto& visit) const {
    for (auto each = std::ranges::upper_bound(awaited_, begin, std::less{}, &Awaited::highest);
         each != awaited_.end() && each->begin < end; ++each) {
      if (each->end <= begin || each->from > end_of(b) || each->from < begin_of(b)) continue;
      if (each->begin > begin) visit(begin, each->begin);
      begin = each->end;
    }
    if (begin < end) visit(begin, end);
  }

  /// How long it takes after `b` until what is awaited begins, at most `most`, in units of that: the mean of the bytes.
  double wait(Row b, Bytes begin, Bytes end, double most) const {
    double sum = 0;
    Bytes taken;
    for (auto each = std::ranges::upper_bound(awaited_, begin, std::less{}, &Awaited::highest);
         each != awaited_.end() && each->begin < end; ++each) {
      if (each->end <= begin || each->from <= end_of(b)) continue;
      const Bytes part = std::min(each->end, end) - std::max(each->begin, begin);
      taken += part;
      sum += static_cast<double>(part.count) * std::min(1.0, static_cast<double>(each->from - end_of(b)) / most);
    }
    const Bytes all = end - begin, free = all - std::min(all, taken);
    return (sum + static_cast<double>(free.count)) / static_cast<double>(all.count);
  }

  /// Of what is alive at the same time, no two have the same one.
  std::uint32_t slot(Row b) const { return slots_[b]; }
  std::uint32_t slot_count() const { return slot_count_; }

 private:
  struct Awaited {
    Bytes begin, end;
    Time from = 0;
    Bytes highest = {};  // end of those up to it
  };

  void number(const Course& course) {
    slots_.resize(problem_.count());
    std::vector<std::uint32_t> free;
    const auto take = [&](Row b) {
      if (free.empty()) free.push_back(slot_count_++);
      slots_[b] = free.back();
      free.pop_back();
    };
    for (const Row b : course.stack) take(b);
    std::size_t ended = 0;
    for (const Row b : begins_) {
      for (; end_of(ends_[ended]) < begin_of(b); ++ended) free.push_back(slots_[ends_[ended]]);
      take(b);
    }
  }

  const Problem& problem_;
  bool forwards_;
  std::vector<Row> begins_, ends_;
  std::vector<std::uint32_t> slots_;  // by row
  std::uint32_t slot_count_ = 0;
  std::vector<Awaited> awaited_;                  // by offset
  std::vector<std::optional<Bytes>> awaited_at_;  // by row
};

/// What is alive at one instant of a sweep, in order of its offsets, and the gaps between. Copied to try something.
class Front {
 public:
  Front(const Schedule& schedule, Bytes enough)
      : schedule_(&schedule), enough_(enough), extents_(schedule.slot_count() + 1), ground_(schedule.slot_count()) {
    const Problem& problem = schedule.problem();
    double lengths = 0, sizes = 0;
    for (Row b = 0; b < problem.count(); ++b) {
      lengths += problem.lifetimes[b].length();
      sizes += static_cast<double>(problem.sizes[b].count);
    }
    per_mean_lifetime_ = problem.count() / lengths;
    mean_size_ = sizes / problem.count();
    extents_[ground_] = {.begin = endless, .end = {}, .until = 0, .above = ground_, .below = ground_};
    add_gap(ground_);
  }

  void prefer(const Preference& preference) {
    worth_ = preference.together * mean_size_;
    uses_ = preference.reuse > 0 ? 1 / (preference.reuse * mean_size_) : 0;
  }
  void set_enough(Bytes enough) { enough_ = enough; }
  Bytes enough() const { return enough_; }

  /// Bytes: small gaps are lost, large ones will be used.
  double lost() const {
    double sum = 0;
    for (std::size_t i = 0; i < gaps_.directory().size(); ++i)
      for (const auto& [gap, under] : gaps_.chunk(i))
        if (extents_[under].above != ground_) sum += lost(gap, 2 / mean_size_);
    return sum;
  }

  /// Adds what is alive at first, above all others.
  void stack(Row b, Bytes offset) { insert(b, offset, extents_[ground_].below); }

  /// Places what begins now. Returns its offset.
  Bytes place(Row b) {
    constexpr std::size_t most_gaps = 32;  // looked at: more find little more
    for (; schedule_->end_of(schedule_->ends()[ended_]) < schedule_->begin_of(b); ++ended_)
      remove(schedule_->slot(schedule_->ends()[ended_]));
    if (const std::optional<Bytes> awaited = schedule_->awaited_at(b)) {
      insert(b, *awaited, below(*awaited));
      return *awaited;
    }
    const Bytes size = schedule_->problem().sizes[b];
    const double until = end_of(b);
    Slot best = ground_;
    Bytes offset;
    double least = std::numeric_limits<double>::infinity();
    std::size_t looked_at = 0;
    const auto consider = [&](double left, Slot under, Slot neighbour, Bytes at) {
      const double cost = left + worth_ * apart(until, neighbour);
      if (cost >= least) return;
      least = cost;
      best = under;
      offset = at;
    };
    // Returns whether what follows may cost less.
    const auto look_at = [&](const Gap& gap) {
      if (looked_at++ == most_gaps) return false;
      const Slot under = gap.second, over = extents_[under].above;
      const Bytes begin = extents_[under].end;
      const double left = over == ground_ ? left_below_enough(begin + size) : lost(gap.first - size, uses_);
      if (left >= least) return uses_ > 0;  // without further uses, what follows leaves more
      consider(left, under, under, begin);
      if (over != ground_) consider(left, under, over, extents_[over].begin - size);
      return true;
    };
    // The same where some of it is awaited.
    const auto look_at_parts = [&](const Gap& gap) {
      const Slot under = gap.second, over = extents_[under].above;
      const Bytes begin = extents_[under].end, end = extents_[over].begin;
      bool fits = false;
      schedule_->for_each_part(b, begin, end, [&](Bytes from, Bytes to) {
        if (to - from < size) return;
        fits = true;
        const double left = to == endless ? left_below_enough(from + size) : lost(to - from - size, uses_);
        consider(left + wait(b, from, size), under, from == begin ? under : ground_, from);
        if (to != endless) consider(left + wait(b, to - size, size), under, to == end ? over : ground_, to - size);
      });
      looked_at += fits ? 1 : 0;
      return looked_at < most_gaps;
    };
    if (schedule_->awaits())
      look_at_gaps(size, look_at_parts);
    else
      look_at_gaps(size, look_at);
    insert(b, offset, best);
    return offset;
  }

 private:
  using Slot = std::uint32_t;

  struct Extent {
    Bytes begin, end;
    double until = 0;  // in mean lifetimes
    Slot above = 0, below = 0;
  };

  using Gap = std::pair<Bytes, Slot>;  // its size, and what lies below it, by which it is known

  struct Largest {
    Gap last;

    static Largest of(std::span<const Gap> gaps) { return {gaps.back()}; }
    void add(const Gap& gap) { last = std::max(last, gap); }
    bool depends_on(const Gap& gap) const { return gap == last; }
  };

  /// What lies below an offset at which nothing is alive.
  Slot below(Bytes offset) const {
    Slot under = ground_;
    for (Slot over = extents_[under].above; over != ground_ && extents_[over].begin < offset;
         over = extents_[over].above)
      under = over;
    return under;
  }
  Gap gap_above(Slot under) const { return {extents_[extents_[under].above].begin - extents_[under].end, under}; }
  /// Visits those of at least `size`, smallest first, while `visit` returns true.
  void look_at_gaps(Bytes size, const auto& visit) const {
    const Gap least{size, 0};
    std::size_t i = gaps_.chunk_of(least);
    if (i == gaps_.directory().size()) return;
    for (std::size_t first = gaps_.position_of(gaps_.chunk(i), least); i < gaps_.directory().size(); ++i, first = 0)
      for (const Gap& gap : gaps_.chunk(i).subspan(first))
        if (!visit(gap)) return;
  }
  void add_gap(Slot under) {
    if (const Gap gap = gap_above(under); gap.first > 0_B) gaps_.insert(gap);
  }
  void remove_gap(Slot under) {
    if (const Gap gap = gap_above(under); gap.first > 0_B) gaps_.erase(gap);
  }

  void insert(Row b, Bytes offset, Slot under) {
    remove_gap(under);
    const Slot slot = schedule_->slot(b), over = extents_[under].above;
    extents_[slot] = {.begin = offset,
                      .end = offset + schedule_->problem().sizes[b],
                      .until = end_of(b),
                      .above = over,
                      .below = under};
    extents_[under].above = extents_[over].below = slot;
    add_gap(under);
    add_gap(slot);
  }
  void remove(Slot slot) {
    const Extent& extent = extents_[slot];
    remove_gap(extent.below);
    remove_gap(slot);
    extents_[extent.below].above = extent.above;
    extents_[extent.above].below = extent.below;
    add_gap(extent.below);
  }

  /// Bytes lost of the gap above everything: of what is left up to `enough_`, or else many.
  double left_below_enough(Bytes end) const {
    constexpr double many = 1e20;
    return end <= enough_ ? lost(enough_ - end, uses_) : many;
  }
  static double lost(Bytes left, double uses_per_byte) {
    const auto bytes = static_cast<double>(left.count);
    const double uses = 1 + bytes * uses_per_byte;
    return bytes / (uses * uses);
  }

  /// How far apart two buffers end, from 0 to 1, in mean lifetimes.
  double apart(double until, Slot neighbour) const {
    constexpr double unknown = 0.3;  // next to nothing: neither good nor bad
    return neighbour == ground_ ? unknown : std::min(1.0, std::abs(until - extents_[neighbour].until));
  }
  /// Bytes that are lost if an extent is not in use between the end of `b` and the begin of what is awaited there.
  double wait(Row b, Bytes begin, Bytes size) const {
    constexpr double worth = 0.5;
    return worth * worth_ * schedule_->wait(b, begin, begin + size, 1 / per_mean_lifetime_);
  }
  double end_of(Row b) const { return static_cast<double>(schedule_->end_of(b)) * per_mean_lifetime_; }

  const Schedule* schedule_;
  Bytes enough_;
  double per_mean_lifetime_ = 0, mean_size_ = 0;
  double worth_ = 0;  // bytes, for a mean lifetime
  double uses_ = 0;   // per byte that is left over
  std::size_t ended_ = 0;
  std::vector<Extent> extents_;  // by slot, of what is alive; the last is the ground, and what lies above everything
  Slot ground_;
  SortedChunks<Gap, Largest> gaps_;
};

/// A sweep under way, by stretches of buffers.
class Sweep {
 public:
  Sweep(const Problem& problem, const Course& course, const std::vector<Bytes>& offsets,
        std::span<const Preference> preferences, const SweepLimits& limits)
      : schedule_(problem, course, offsets),
        preferences_(preferences),
        limits_(limits),
        again_(limits.again),
        mean_alive_(problem.mean_alive()) {
    Front front(schedule_, limits.enough);
    for (const Row b : course.stack) {
      front.stack(b, offsets[b]);
      top_ = std::max(top_, offsets[b] + problem.sizes[b]);
    }
    fronts_.push_back(std::move(front));
    constexpr std::uint64_t most_alive = 20'000;  // to come again, for which fronts are kept
    if (mean_alive_ > most_alive) again_ = 0;
    stretch_ = std::clamp<std::size_t>(mean_alive_ / 2, 100, 1250);
  }

  Swept run() {
    for (std::size_t i = 0; i * stretch_ < schedule_.begins().size() && top_ < below(); ++i) {
      go_on(i);
      if (tops_[i] > limits_.enough) come_again(i);
      top_ = std::max(top_, top_since(i - std::min(i, most_back)));
      raise_enough();
    }
    Swept swept{.rows = {}, .offsets = {}, .peak = top_};
    for (std::size_t i = 0; i < schedule_.begins().size(); ++i) {
      const Row b = schedule_.begins()[i];
      if (schedule_.awaited_at(b)) continue;
      swept.rows.push_back(b);
      if (i < placed_.size()) swept.offsets.push_back(placed_[i]);
    }
    return swept;
  }

 private:
  static constexpr std::size_t most_back = 64;  // stretches
  // By a sweep that comes again.
  static constexpr std::size_t paths_followed = 2;
  static constexpr std::size_t preferences_tried = 3;  // by each

  /// A stretch that has been placed.
  struct Placed {
    Front front;  // after it
    std::vector<Bytes> offsets;
    Bytes top;  // highest end
  };

  std::span<const Row> rows(std::size_t i) const {
    const std::span all = schedule_.begins();
    return all.subspan(i * stretch_, std::min(stretch_, all.size() - i * stretch_));
  }

  Bytes below() const {
    return limits_.found == nullptr ? limits_.below : std::min(limits_.below, limits_.found->load());
  }

  Bytes top_since(std::size_t from) const {
    return *std::max_element(tops_.begin() + static_cast<std::ptrdiff_t>(from), tops_.end());
  }

  Front& front_before(std::size_t i) { return fronts_[fronts_.size() - 1 - (tops_.size() - i)]; }

  Placed place(std::size_t i, const Front& before, const Preference& preference) const {
    Placed placed{.front = before, .offsets = {}, .top = {}};
    placed.front.prefer(preference);
    for (const Row b : rows(i)) {
      placed.offsets.push_back(placed.front.place(b));
      placed.top = std::max(placed.top, placed.offsets.back() + schedule_.problem().sizes[b]);
    }
    return placed;
  }

  /// By the best of several preferences.
  Placed place(std::size_t i, const Front& before, std::span<const Preference> preferences) const {
    const auto cost = [](const Placed& placed) {
      const Bytes enough = placed.front.enough();
      return std::pair{std::max(placed.top, enough) - enough, placed.front.lost()};
    };
    Placed best = place(i, before, preferences.front());
    for (const Preference& preference : preferences.subspan(1))
      if (Placed placed = place(i, before, preference); cost(placed) < cost(best)) best = std::move(placed);
    return best;
  }

  /// Places stretch `i`, the one after the last.
  void go_on(std::size_t i) {
    Placed placed = place(i, fronts_.back(), preferences_);
    if (fronts_.size() > (again_ > 0 ? most_back + 1 : 0)) fronts_.pop_front();
    fronts_.push_back(std::move(placed.front));
    tops_.push_back(placed.top);
    placed_.insert(placed_.end(), placed.offsets.begin(), placed.offsets.end());
  }

  /// Above the peak that is there, nothing is gained by smaller gaps.
  void raise_enough() {
    if (top_ <= limits_.enough || schedule_.awaits()) return;
    limits_.enough = top_;
    fronts_.back().set_enough(top_);
  }

  /// Stretches placed one after the other, of which several are followed at a time.
  struct Path {
    std::vector<std::shared_ptr<const Placed>> stretches;
    Bytes top;
  };

  /// The best of what several preferences make of the next stretch, for each of the paths.
  std::vector<Path> followed(std::size_t i, const std::vector<Path>& paths, const Front& start, Bytes enough,
                             Bytes below) {
    struct Next {
      std::pair<Bytes, double> cost;
      const Path* path = nullptr;
      std::shared_ptr<const Placed> placed;
    };
    std::vector<Next> found;
    for (const Path& path : paths) {
      Front before = path.stretches.empty() ? start : path.stretches.back()->front;
      before.set_enough(enough);
      for (std::size_t n = 0; n < preferences_tried; ++n) {
        auto placed = std::make_shared<const Placed>(place(i, before, random_preference()));
        const Bytes top = std::max(path.top, placed->top);
        if (top < below) found.push_back({{std::max(top, enough), placed->front.lost()}, &path, std::move(placed)});
      }
    }
    std::ranges::stable_sort(found, std::less{}, &Next::cost);
    found.resize(std::min(found.size(), paths_followed));
    std::vector<Path> next;
    for (Next& each : found) {
      Path& path = next.emplace_back(*each.path);
      path.top = std::max(path.top, each.placed->top);
      path.stretches.push_back(std::move(each.placed));
    }
    return next;
  }

  /// Places the stretches up to `last` again, from one or some before it, for a lower top of them all.
  void come_again(std::size_t last) {
    constexpr std::size_t most_tries = 32;
    for (std::size_t n = 0; n < most_tries && top_since(last - std::min(last, most_back)) > limits_.enough; ++n) {
      constexpr std::array<std::size_t, 4> lifetimes{1, 2, 4, 8};
      const std::size_t back =
          std::min<std::size_t>(lifetimes[n % lifetimes.size()] * mean_alive_ / stretch_, most_back);
      const std::size_t from = last - std::min(last, back);
      const Bytes below = top_since(from);
      if (below <= limits_.enough) continue;  // what is too high began before
      const std::uint64_t effort = paths_followed * preferences_tried * (last - from + 1) * stretch_;
      if (again_ < effort) return;
      again_ -= effort;
      // Less room before the last makes for smaller gaps in it.
      const Bytes enough = n % 2 == 0 ? a_little_less_than(limits_.enough) : limits_.enough;
      std::vector<Path> paths(1);
      for (std::size_t i = from; i <= last && !paths.empty(); ++i)
        paths = followed(i, paths, front_before(from), enough, below);
      if (!paths.empty()) adopt(*std::ranges::min_element(paths, std::less{}, &Path::top), from);
    }
  }

  void adopt(const Path& path, std::size_t from) {
    for (std::size_t i = from; i < from + path.stretches.size(); ++i) {
      const Placed& stretch = *path.stretches[i - from];
      std::ranges::copy(stretch.offsets, placed_.begin() + static_cast<std::ptrdiff_t>(i * stretch_));
      front_before(i + 1) = stretch.front;
      front_before(i + 1).set_enough(limits_.enough);
      tops_[i] = stretch.top;
    }
  }

  Bytes a_little_less_than(Bytes enough) {
    constexpr double most = 0.03;
    return enough - Bytes{static_cast<std::uint64_t>(most * uniform() * static_cast<double>(enough.count))};
  }

  double uniform() { return static_cast<double>(random_()) / static_cast<double>(std::mt19937::max()); }

  Preference random_preference() {
    const double together = 0.15 * std::pow(8, uniform());
    return {.together = together, .reuse = uniform() < 0.5 ? 0 : 0.5 + uniform()};
  }

  Schedule schedule_;
  std::span<const Preference> preferences_;
  SweepLimits limits_;
  std::uint64_t again_;
  std::uint64_t mean_alive_;
  std::size_t stretch_ = 0;    // buffers
  std::deque<Front> fronts_;   // before each of the last stretches, and now
  std::vector<Bytes> tops_;    // of each stretch
  std::vector<Bytes> placed_;  // in order of begin
  Bytes top_;
  std::mt19937 random_{1};
};

}  // namespace

Swept sweep(const Problem& problem, const Course& course, const std::vector<Bytes>& offsets,
            std::span<const Preference> preferences, const SweepLimits& limits) {
  return Sweep(problem, course, offsets, preferences, limits).run();
}

}  // namespace memreel::plan
