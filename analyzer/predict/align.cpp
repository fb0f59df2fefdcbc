// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/align.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

namespace memreel {
namespace {

// Scores. Only their ratios matter: a size that fits outweighs opening a gap; an implausible one outweighs nothing.
constexpr std::int32_t size_fits = 16, size_plausible = 6, size_implausible = -6;
constexpr std::int32_t lifetime_equal = 4, lifetime_differs = -4;
constexpr std::uint32_t long_lifetime = 8;
constexpr std::int32_t gap_open = -9, gap_extend = -1;
constexpr std::int32_t impossible = -(1 << 28);

/// After this many matching requests, two recordings are taken to be at the same point of the program.
constexpr std::size_t agreement = 12;
/// How far ahead that point is searched, and how many pairs of requests are scored.
constexpr std::size_t most_left_out = 1U << 14U, most_pairs = 1U << 25U;

using Rows = std::span<const Request>;

class Score {
 public:
  explicit Score(std::span<const Ratio> ratios) : ratios_(ratios) {
    for (const Ratio& ratio : ratios) {
      const double factor = static_cast<double>(ratio.to) / static_cast<double>(ratio.from);
      least_ = std::min(least_, factor);
      most_ = std::max(most_, factor);
    }
  }

  /// For two requests of the same site.
  std::int32_t operator()(const Request& a, const Request& b) const { return of_sizes(a, b) + of_lifetimes(a, b); }

 private:
  std::int32_t of_sizes(const Request& a, const Request& b) const {
    if (a.size == b.size) return size_fits;
    for (const Ratio& ratio : ratios_)
      if (a.size.count * ratio.to == b.size.count * ratio.from) return size_fits;
    const double factor =
        static_cast<double>(b.size.count) / static_cast<double>(std::max<std::uint64_t>(a.size.count, 1));
    return factor >= least_ && factor <= most_ ? size_plausible : size_implausible;
  }

  static std::int32_t of_lifetimes(const Request& a, const Request& b) {
    if (a.lifetime == Request::kept || b.lifetime == Request::kept)
      return a.lifetime == b.lifetime ? lifetime_equal : lifetime_differs;
    // Longer lifetimes depend on loop counts.
    const std::uint32_t less = std::min(a.lifetime, b.lifetime), more = std::max(a.lifetime, b.lifetime);
    if (less >= long_lifetime) return 0;
    if (less == more) return lifetime_equal;
    return more - less <= 2 ? 0 : lifetime_differs;
  }

  std::span<const Ratio> ratios_;
  double least_ = 1, most_ = 1;
};

/// Aligns a piece of `a` with a piece of `b` by dynamic programming with affine gaps (Gotoh 1982).
class Piece {
 public:
  Piece(Rows a, Rows b, const Score& score) : a_(a), b_(b), score_(score) {}

  /// Calls `pair(i, j)` for each pair of partners.
  template <class Pair>
  void align(Pair pair) {
    const std::size_t columns = b_.size() + 1;
    steps_.assign((a_.size() + 1) * columns, 0);
    std::vector<std::int32_t> best(columns), down(columns, impossible);
    for (std::size_t j = 1; j < columns; ++j) {
      best[j] = gap_open + gap_extend * static_cast<std::int32_t>(j);
      steps_[j] = from_right | (j > 1 ? right_extends : 0);
    }
    for (std::size_t i = 1; i <= a_.size(); ++i) {
      std::int32_t diagonal = best[0];
      best[0] = gap_open + gap_extend * static_cast<std::int32_t>(i);
      std::uint8_t* const steps = &steps_[i * columns];
      steps[0] = static_cast<std::uint8_t>(from_down | (i > 1 ? down_extends : 0));
      std::int32_t right = impossible;
      const Request& a = a_[i - 1];
      for (std::size_t j = 1; j < columns; ++j) {
        std::uint8_t step = 0;
        const std::int32_t extended_down = down[j] + gap_extend, opened_down = best[j] + gap_open + gap_extend;
        if (extended_down >= opened_down) step |= down_extends;
        down[j] = std::max(extended_down, opened_down);
        const std::int32_t extended_right = right + gap_extend, opened_right = best[j - 1] + gap_open + gap_extend;
        if (extended_right >= opened_right) step |= right_extends;
        right = std::max(extended_right, opened_right);
        const Request& b = b_[j - 1];
        std::int32_t here = a.site == b.site ? diagonal + score_(a, b) : impossible;
        if (down[j] > here) {
          here = down[j];
          step |= from_down;
        }
        if (right > here) {
          here = right;
          step = static_cast<std::uint8_t>((step & ~from_down) | from_right);
        }
        diagonal = best[j];
        best[j] = here;
        steps[j] = step;
      }
    }
    trace_back(columns, pair);
  }

 private:
  static constexpr std::uint8_t from_down = 1, from_right = 2, down_extends = 4, right_extends = 8;

  template <class Pair>
  void trace_back(std::size_t columns, Pair pair) const {
    std::size_t i = a_.size(), j = b_.size();
    std::uint8_t inside = 0;  // of a gap that is extended
    while (i > 0 || j > 0) {
      const std::uint8_t step = steps_[i * columns + j];
      const std::uint8_t way = inside != 0 ? inside : step & (from_down | from_right);
      if (way == from_down) {
        inside = (step & down_extends) != 0 ? from_down : 0;
        --i;
      } else if (way == from_right) {
        inside = (step & right_extends) != 0 ? from_right : 0;
        --j;
      } else {
        pair(--i, --j);
      }
    }
  }

  Rows a_, b_;
  const Score& score_;
  std::vector<std::uint8_t> steps_;
};

/// Pairs the n-th request of a site with the n-th of the other, as long as that keeps the order.
template <class Pair>
void pair_by_ordinal(Rows a, Rows b, Pair pair) {
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> rows_of;
  for (std::uint32_t i = 0; i < a.size(); ++i) rows_of[a[i].site].push_back(i);
  std::unordered_map<std::uint32_t, std::size_t> taken;
  std::uint32_t behind = 0;
  for (std::uint32_t j = 0; j < b.size(); ++j) {
    const auto found = rows_of.find(b[j].site);
    if (found == rows_of.end()) continue;
    std::size_t& next = taken[b[j].site];
    if (next >= found->second.size()) continue;
    const std::uint32_t i = found->second[next++];
    if (i < behind) continue;
    behind = i + 1;
    pair(i, j);
  }
}

template <class Pair>
void align_piece(Rows a, Rows b, const Score& score, Pair pair) {
  if (a.empty() || b.empty()) return;
  if (a.size() * b.size() <= most_pairs)
    Piece(a, b, score).align(pair);
  else
    pair_by_ordinal(a, b, pair);
}

/// Whether two requests could hardly be more alike.
bool alike(const Request& a, const Request& b, const Score& score) {
  return a.site == b.site && score(a, b) >= size_fits;
}

/// Whether the next `agreement` requests match, or all that are left of both.
bool agree(Rows a, Rows b, const Score& score) {
  const std::size_t length = std::min({a.size(), b.size(), agreement});
  if (length < agreement && a.size() != b.size()) return false;
  for (std::size_t i = 0; i < length; ++i)
    if (!alike(a[i], b[i], score)) return false;
  return true;
}

struct Distance {
  std::size_t a = 0, b = 0;
};

/// The least that must be skipped until both agree again; all of them if that is too far away.
Distance until_agreement(Rows a, Rows b, const Score& score) {
  for (std::size_t all = 1; all <= std::min(a.size() + b.size(), most_left_out); ++all)
    for (std::size_t left = all > b.size() ? all - b.size() : 0; left <= std::min(all, a.size()); ++left)
      if (agree(a.subspan(left), b.subspan(all - left), score)) return {left, all - left};
  return {a.size(), b.size()};
}

/// Most parts of two recordings match request by request. The parts between these are scored.
template <class Pair>
void align_section(Rows a, Rows b, const Score& score, Pair pair) {
  std::size_t at_a = 0, at_b = 0;
  while (at_a < a.size() || at_b < b.size()) {
    while (at_a < a.size() && at_b < b.size() && alike(a[at_a], b[at_b], score)) pair(at_a++, at_b++);
    const Distance skip = until_agreement(a.subspan(at_a), b.subspan(at_b), score);
    align_piece(a.subspan(at_a, skip.a), b.subspan(at_b, skip.b), score,
                [&](std::size_t i, std::size_t j) { pair(at_a + i, at_b + j); });
    at_a += skip.a;
    at_b += skip.b;
  }
}

/// The rows of one size, the longest-lived last.
using BySize = std::map<std::uint64_t, std::vector<std::uint32_t>>;

BySize by_size(Rows rows) {
  BySize sizes;
  for (std::uint32_t i = 0; i < rows.size(); ++i) sizes[rows[i].size.count].push_back(i);
  for (auto& [size, of_size] : sizes)
    std::ranges::stable_sort(of_size, {}, [&](std::uint32_t i) { return rows[i].lifetime; });
  return sizes;
}

/// A size of one recording that may have become one of the other.
struct Growth {
  std::vector<std::uint32_t>* from = nullptr;
  std::vector<std::uint32_t>* to = nullptr;
  double alike = 0;  // the smaller number of rows, by the larger
};

/// Sizes of which there are equally many first: 323 blocks of 5 MiB become 323 blocks of 20 MiB, even if there were
/// 160 blocks of 20 MiB before (which become 160 of 80 MiB). Then sizes that stay, as weights do, and what the
/// parameters suggest. Among the blocks of a size, those that live alike.
Partners pair_older(Rows a, Rows b, std::span<const Ratio> ratios) {
  BySize of_a = by_size(a), of_b = by_size(b);
  std::vector<Growth> growths;
  for (const Ratio& ratio : ratios)  // the first is 1
    for (auto& [size, rows] : of_b) {
      const std::uint64_t grown = size * ratio.from;
      const auto before = grown % ratio.to == 0 ? of_a.find(grown / ratio.to) : of_a.end();
      if (before == of_a.end()) continue;
      const auto before_count = static_cast<double>(before->second.size()), count = static_cast<double>(rows.size());
      growths.push_back({&before->second, &rows, std::min(before_count, count) / std::max(before_count, count)});
    }
  std::ranges::stable_sort(growths, std::greater{}, &Growth::alike);
  Partners partner(b.size(), no_partner);
  for (const Growth& growth : growths)
    while (!growth.from->empty() && !growth.to->empty()) {
      partner[growth.to->back()] = growth.from->back();
      growth.to->pop_back();
      growth.from->pop_back();
    }
  return partner;
}

}  // namespace

Bytes unmatched_older(const Requests& a, const Requests& b, std::span<const Ratio> ratios) {
  const Rows of_a = older_of(a), of_b = older_of(b);
  Bytes left_a, left_b;
  for (const Request& request : of_a) left_a += request.size;
  const Partners partners = pair_older(of_a, of_b, ratios);
  for (std::size_t j = 0; j < of_b.size(); ++j) {
    if (partners[j] == no_partner)
      left_b += of_b[j].size;
    else
      left_a -= of_a[partners[j]].size;
  }
  return std::max(left_a, left_b);
}

std::vector<Ratio> growth_ratios(std::span<const std::uint64_t> from, std::span<const std::uint64_t> to) {
  std::vector<Ratio> ratios{Ratio{}};
  for (std::size_t p = 0; p < from.size(); ++p) {
    if (from[p] == to[p]) continue;
    const std::size_t before = ratios.size();
    for (std::size_t i = 0; i < before; ++i) {
      Ratio ratio = ratios[i];
      for (int power = 1; power <= 2; ++power) {
        ratio.to *= to[p];
        ratio.from *= from[p];
        ratios.push_back(ratio);
      }
    }
  }
  return ratios;
}

std::vector<std::uint32_t> align(const Requests& a, const Requests& b, std::span<const Ratio> ratios) {
  std::vector<std::uint32_t> partner(b.rows.size(), no_partner);
  const Score score(ratios);
  const auto older_a = static_cast<std::uint32_t>(older_of(a).size());
  const auto older_b = static_cast<std::uint32_t>(older_of(b).size());
  std::ranges::copy(pair_older(older_of(a), older_of(b), ratios), partner.begin());
  const auto align_rows = [&](std::size_t a_from, std::size_t a_to, std::size_t b_from, std::size_t b_to) {
    align_section(Rows(a.rows).subspan(a_from, a_to - a_from), Rows(b.rows).subspan(b_from, b_to - b_from), score,
                  [&](std::size_t i, std::size_t j) { partner[b_from + j] = static_cast<std::uint32_t>(a_from + i); });
  };
  if (a.ends.size() != b.ends.size()) {
    align_rows(older_a, a.rows.size(), older_b, b.rows.size());
    return partner;
  }
  std::uint32_t a_from = older_a, b_from = older_b;
  for (std::size_t section = 0; section < a.ends.size(); ++section) {
    const std::uint32_t a_to = std::max(a_from, a.ends[section]), b_to = std::max(b_from, b.ends[section]);
    align_rows(a_from, a_to, b_from, b_to);
    a_from = a_to;
    b_from = b_to;
  }
  return partner;
}

namespace {

/// The share of a unit's requests that a stretch must free to undo it.
constexpr double least_share_freed = 1.0 / 32;

/// The share by which a count may miss its function and still count as following it.
constexpr double count_tolerance = 0.1;

class RepeatFinder {
 public:
  RepeatFinder(Recordings recordings, std::size_t base, const Partners& below)
      : recordings_(recordings), base_(base), below_(below) {}

  std::vector<Repeat> run() {
    std::uint32_t section = 0;
    const std::vector<std::uint32_t>& ends = recordings_[base_]->requests.ends;
    for (std::uint32_t row = 0; row < rows().size();) {
      while (row >= ends[section]) ++section;
      if (below_[row] != no_partner) {
        ++row;
        continue;
      }
      std::uint32_t behind = row;
      while (behind < ends[section] && below_[behind] == no_partner) ++behind;
      for (const Stretch& stretch : stretches(row, behind - row, ends[section])) consider(stretch, section);
      row = behind;
    }
    return std::move(repeats_);
  }

 private:
  const std::vector<Request>& rows() const { return recordings_[base_]->requests.rows; }

  struct Stretch {
    std::uint32_t first = 0, count = 0, period = 0;
  };

  enum class Likeness : std::uint8_t { exact, near };

  std::vector<Stretch> stretches(std::uint32_t first, std::uint32_t count, std::uint32_t end) const {
    for (const Likeness likeness : {Likeness::exact, Likeness::near})
      if (std::vector<Stretch> found = stretches(first, count, end, likeness); !found.empty()) return found;
    return {{first, count, count}};
  }

  /// Two consecutive loops may form one stretch: the last rounds of the one and the first of the other.
  std::vector<Stretch> stretches(std::uint32_t first, std::uint32_t count, std::uint32_t end, Likeness likeness) const {
    Stretch ends_loop{first, 0, 1}, begins_loop{first + count, 0, 1};
    for (std::uint32_t period = 1; period <= count; ++period) {
      std::uint32_t rows = 0;
      while (rows < count && period <= first && repeats_after(first + rows, period, likeness)) ++rows;
      if (rows / period * period > ends_loop.count) ends_loop = {first, rows / period * period, period};
      if (ends_loop.count == count) return {ends_loop};
      rows = 0;
      while (rows < count && repeats_before(first + count - 1 - rows, period, end, likeness)) ++rows;
      rows = rows / period * period;
      if (rows > begins_loop.count) begins_loop = {first + count - rows, rows, period};
    }
    if (begins_loop.count == count) return {begins_loop};
    const std::uint32_t rest = count - ends_loop.count;
    if (begins_loop.count < rest || rest % begins_loop.period != 0) return {};
    return {ends_loop, {first + ends_loop.count, rest, begins_loop.period}};
  }

  void consider(const Stretch& stretch, std::uint32_t section) {
    const auto [first, count, period] = stretch;
    std::set<std::uint32_t> sites;
    for (std::uint32_t row = first; row < first + count; ++row) sites.insert(rows()[row].site);
    std::vector<std::uint64_t> counts;
    for (const Recording* recording : recordings_) counts.push_back(count_of(recording->requests, sites, section));
    if (counts[base_] <= counts[base_ - 1]) return;
    std::vector<SizePoint> points;
    for (std::size_t r = 0; r < recordings_.size(); ++r) points.push_back({recordings_[r]->at, Bytes{counts[r]}});
    std::optional<SizeGrowth> growth = count_growth(points);
    if (!growth) return;
    Repeat repeat{.first = first,
                  .count = count,
                  .period = period,
                  .requests = *std::move(growth),
                  .added = counts[base_] - counts[base_ - 1]};
    choose_unit(repeat, section);
    repeats_.push_back(std::move(repeat));
  }

  /// The last period, because sizes have grown furthest in it; if they don't grow, the last but one, because what
  /// surrounds a loop is freed in its first round or after its last. But for a stretch that frees what the units of
  /// earlier repeats requested, the period that does so: then a copy of the one is undone by a copy of the other. Where
  /// a period begins is arbitrary, and it may be any period of the loop that the stretch belongs to.
  void choose_unit(Repeat& repeat, std::uint32_t section) const {
    const std::uint32_t end = recordings_[base_]->requests.ends[section];
    const std::uint32_t period = repeat.period;
    std::uint32_t first = repeat.first, behind = repeat.first + repeat.count;
    repeat.unit = behind - period;
    while (first > 0 && !is_copied(first - 1) && repeats_before(first - 1, period, end, Likeness::exact)) --first;
    while (behind < end && repeats_before(behind - period, period, end, Likeness::exact)) ++behind;
    if (behind - first >= 3 * period && repeats_before_all(behind - 2 * period, period, end))
      repeat.unit = behind - 2 * period;
    std::uint32_t most = 0;
    for (std::uint32_t unit = first; unit + period <= behind; ++unit) {
      const std::uint32_t freed = freed_of_units(unit, period, section);
      if (freed < most || freed == 0) continue;
      most = freed;
      repeat.unit = unit;
    }
    repeat.backwards = most > 0;
  }

  std::uint32_t begin_of(std::uint32_t section) const {
    return section == 0 ? 0 : recordings_[base_]->requests.ends[section - 1];
  }

  bool is_copied(std::uint32_t row) const { return repeat_of(repeats_, row) != nullptr; }

  /// The number of requests of the section's units so far that are freed during the `count` rows from `first` on. A few
  /// of a unit's may be chance, as when a variable gets its next value, and don't count; neither do those of a unit
  /// that is mostly freed elsewhere.
  std::uint32_t freed_of_units(std::uint32_t first, std::uint32_t count, std::uint32_t section) const {
    std::uint32_t freed = 0;
    for (const Repeat& repeat : repeats_) {
      if (repeat.unit < begin_of(section)) continue;
      const std::uint32_t behind = repeat.unit + repeat.period;
      std::uint32_t here = 0, left = 0;
      for (std::uint32_t row = repeat.unit; row < behind; ++row) {
        const std::uint32_t lifetime = rows()[row].lifetime;
        const std::uint64_t asked = std::uint64_t{row} + lifetime;  // the last request before the free
        if (lifetime == Request::kept || asked < behind) continue;
        ++left;
        if (asked >= first && asked < std::uint64_t{first} + count) ++here;
      }
      if (2 * here >= left && here >= least_share_freed * repeat.period) freed += here;
    }
    return freed;
  }

  std::uint64_t count_of(const Requests& requests, const std::set<std::uint32_t>& sites, std::uint32_t section) const {
    std::uint32_t from = 0, to = static_cast<std::uint32_t>(requests.rows.size());
    if (requests.ends.size() == recordings_[base_]->requests.ends.size()) {
      from = section == 0 ? 0 : requests.ends[section - 1];
      to = requests.ends[section];
    }
    std::uint64_t count = 0;
    for (std::uint32_t row = from; row < to; ++row) count += sites.contains(requests.rows[row].site) ? 1U : 0U;
    return count;
  }

  /// A function of one or two terms through the counts; with some tolerance if the remaining counts decide.
  std::optional<SizeGrowth> count_growth(std::vector<SizePoint> points) const {
    if (points.size() == 2) return SizeGrowth::through(points, false);
    if (std::optional<SizeGrowth> exact = SizeGrowth::through(points, false); exact && exact->confirmed()) return exact;
    const SizePoint smallest = points.front();
    const std::vector<SizePoint> larger(points.begin() + 1, points.end());
    std::optional<SizeGrowth> growth = SizeGrowth::through(larger, false);
    if (!growth) return std::nullopt;
    const auto wanted = static_cast<double>(smallest.size.count);
    const auto found = static_cast<double>(growth->at(smallest.at).count);
    const auto span = static_cast<double>(larger.back().size.count) - wanted;
    return std::abs(found - wanted) <= count_tolerance * span ? growth : std::nullopt;
  }

  /// Whether a request equals the one `period` rows before it, or has grown as much as that one had; or nearly so.
  bool repeats_after(std::uint32_t row, std::uint32_t period, Likeness likeness) const {
    const Request& now = rows()[row];
    const Request& before = rows()[row - period];
    if (now.site != before.site) return false;
    if (now.size == before.size) return true;
    if (likeness == Likeness::near) return is_near(now.size, before.size);
    if (row < 2 * period) return false;
    const Request& earlier = rows()[row - 2 * period];
    return earlier.site == now.site && now.size + earlier.size == before.size + before.size;
  }

  bool repeats_before(std::uint32_t row, std::uint32_t period, std::uint32_t end, Likeness likeness) const {
    if (row + period >= end || rows()[row].site != rows()[row + period].site) return false;
    const Bytes size = rows()[row].size, next = rows()[row + period].size;
    return size == next || (likeness == Likeness::near && is_near(size, next));
  }

  bool repeats_before_all(std::uint32_t first, std::uint32_t period, std::uint32_t end) const {
    for (std::uint32_t row = first; row < first + period; ++row)
      if (!repeats_before(row, period, end, Likeness::exact)) return false;
    return true;
  }

  static bool is_near(Bytes a, Bytes b) {
    return std::max(a, b).count - std::min(a, b).count <= std::max(a, b).count / 8;
  }

  Recordings recordings_;
  std::size_t base_;
  const Partners& below_;
  std::vector<Repeat> repeats_;
};

}  // namespace

std::vector<Repeat> find_repeats(Recordings recordings, std::size_t base, const Partners& below) {
  return RepeatFinder(recordings, base, below).run();
}

const Repeat* repeat_of(std::span<const Repeat> repeats, std::uint32_t row) {
  const auto behind = std::ranges::upper_bound(repeats, row, {}, &Repeat::unit);
  if (behind == repeats.begin()) return nullptr;
  const Repeat& repeat = *std::prev(behind);
  return row < repeat.unit + repeat.period ? &repeat : nullptr;
}

std::int64_t Repeat::periods(std::span<const std::uint64_t> values, std::span<const std::uint64_t> base_values) const {
  const auto wanted = static_cast<double>(requests.at(values).count);
  const auto have = static_cast<double>(requests.at(base_values).count);
  constexpr double most = 1U << 31U;
  return std::llround(std::clamp((wanted - have) / static_cast<double>(added) * (count / period), -most, most));
}

}  // namespace memreel
