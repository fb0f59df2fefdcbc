#include "analyzer/predict/repeats.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace memreel {
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
