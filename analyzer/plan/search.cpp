#include "analyzer/plan/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>

namespace memreel::plan {
namespace {

using Units = std::int32_t;  // of the greatest common divisor of all sizes: four are compared at once
using Row = std::uint32_t;

constexpr Units most_units = std::numeric_limits<Units>::max() / 4;

enum class Answer : std::uint8_t { found, impossible, gave_up };

/// A buffer's position in the order of the list: by offset, then by rank.
struct Step {
  Units offset = -1;
  std::uint32_t rank = 0;

  friend auto operator<=>(const Step&, const Step&) = default;
};

class Search {
 public:
  Search(const Problem& problem, Bytes unit) : lifetimes_(problem.lifetimes), room_(problem.section_count) {
    for (const Bytes size : problem.sizes) sizes_.push_back(static_cast<Units>(size / unit));
    find_neighbours();
    find_twins();
  }

  /// `order` ranks the buffers; ties are tried in this order.
  Answer run(Units capacity, std::span<const Row> order, std::uint64_t nodes) {
    capacity_ = capacity;
    nodes_left_ = nodes;
    rank_.resize(count());
    for (std::uint32_t i = 0; i < order.size(); ++i) rank_[order[i]] = i;
    floor_.assign(count(), 0);
    placed_.assign(count(), false);
    open_neighbours_.resize(count());
    for (Row b = 0; b < count(); ++b) open_neighbours_[b] = static_cast<std::uint32_t>(neighbours_[b].size());
    trail_.clear();
    std::vector<Row> all(count());
    std::iota(all.begin(), all.end(), 0U);
    std::ranges::sort(all, std::less{}, [&](Row b) { return std::pair{lifetimes_[b].first, b}; });
    return solve(all, {}, std::nullopt);
  }

  /// The offsets found by run().
  const std::vector<Units>& offsets() const { return floor_; }
  std::uint64_t nodes_left() const { return nodes_left_; }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(sizes_.size()); }
  Units end_of(Row b) const { return floor_[b] + sizes_[b]; }

  void find_neighbours() {
    neighbours_.resize(count());
    least_neighbour_.assign(count(), most_units);
    for (Row a = 0; a < count(); ++a)
      for (Row b = 0; b < count(); ++b) {
        if (a == b || !lifetimes_[a].overlaps(lifetimes_[b])) continue;
        neighbours_[a].push_back(b);
        least_neighbour_[a] = std::min(least_neighbour_[a], sizes_[b]);
      }
  }

  /// Equal buffers are placed in row order: exchanging them changes nothing.
  void find_twins() {
    constexpr Row none = std::numeric_limits<Row>::max();
    twin_.assign(count(), none);
    for (Row b = 0; b < count(); ++b)
      for (Row a = 0; a < b; ++a)
        if (sizes_[a] == sizes_[b] && lifetimes_[a].first == lifetimes_[b].first &&
            lifetimes_[a].last == lifetimes_[b].last)
          twin_[b] = a;
  }

  bool waits_for_twin(Row b) const { return twin_[b] < count() && !placed_[twin_[b]]; }

  /// Buffers connected in time, and the most of them alive at once.
  struct Part {
    std::span<const Row> open;
    Units load = 0;
  };

  /// Places `open`, ordered by first section, above `last`, the step that placed `placed`. Undoes everything unless it
  /// returns `found`.
  Answer solve(std::span<const Row> open, Step last, std::optional<Row> placed) {
    hopeless_ = false;
    std::vector<Row> left;
    left.reserve(open.size());
    for (const Row b : open) {
      if (open_neighbours_[b] > 0)
        left.push_back(b);
      else if (end_of(b) > capacity_)
        return Answer::impossible;
    }
    std::vector<Part> parts = split(left);
    for (Part& part : parts)
      if (!has_room(part, last)) return impossible(part, placed);
    // The part most likely to fail first.
    std::ranges::stable_sort(parts, std::greater{}, &Part::load);
    const std::size_t undo_to = trail_.size();
    for (const Part& part : parts) {
      const Answer answer = branch(part, last);
      if (answer == Answer::found) continue;
      undo(undo_to);
      return answer == Answer::impossible ? impossible(part, placed) : answer;
    }
    return Answer::found;
  }

  /// A part that shares no time with the buffer just placed fails because of earlier placements, or because of the
  /// offset reached by now. Any alternative would lie no lower and fail too.
  Answer impossible(const Part& part, std::optional<Row> placed) {
    hopeless_ =
        placed && std::ranges::none_of(part.open, [&](Row b) { return lifetimes_[b].overlaps(lifetimes_[*placed]); });
    return Answer::impossible;
  }

  std::vector<Part> split(std::span<const Row> open) const {
    std::vector<Part> parts;
    for (std::size_t begin = 0, i = 0; begin < open.size(); begin = i) {
      Row reach = lifetimes_[open[begin]].last;
      for (i = begin + 1; i < open.size() && lifetimes_[open[i]].first <= reach; ++i)
        reach = std::max(reach, lifetimes_[open[i]].last);
      parts.push_back({open.subspan(begin, i - begin)});
    }
    return parts;
  }

  /// Tries the possible next steps of connected buffers.
  Answer branch(const Part& part, Step last) {
    const std::span<const Row> open = part.open;
    Units lowest_end = std::numeric_limits<Units>::max();
    for (const Row b : open) lowest_end = std::min(lowest_end, end_of(b));
    std::vector<std::pair<Step, Row>> next;
    for (const Row b : open) {
      const Step step{floor_[b], rank_[b]};
      if (step > last && step.offset < lowest_end && step.offset + part.load <= capacity_ && !waits_for_twin(b))
        next.emplace_back(step, b);
    }
    std::ranges::sort(next);
    std::vector<Row> rest(open.size() - 1);
    for (const auto& [step, b] : next) {
      if (nodes_left_ == 0) return Answer::gave_up;
      --nodes_left_;
      const std::size_t undo_to = trail_.size();
      place(b);
      std::ranges::remove_copy(open, rest.begin(), b);
      const Answer answer = solve(rest, step, b);
      if (answer != Answer::impossible) {
        if (answer == Answer::gave_up) undo(undo_to);
        return answer;
      }
      undo(undo_to);
      if (hopeless_) break;
    }
    return Answer::impossible;
  }

  /// Whether in every section, and for every offset, the buffers that must lie above it fit under the capacity.
  bool has_room(Part& part, Step last) {
    by_height_.clear();
    Row end = 0;
    for (const Row b : part.open) {
      // A skipped buffer can only be placed once another raises it.
      const bool passed_over = Step{floor_[b], rank_[b]} <= last;
      by_height_.emplace_back(passed_over ? last.offset + least_neighbour_[b] : floor_[b], b);
      end = std::max(end, lifetimes_[b].last);
    }
    std::ranges::sort(by_height_, std::greater{});
    std::fill(room_.begin() + lifetimes_[part.open[0]].first, room_.begin() + end + 1, 0);
    for (const auto& [height, b] : by_height_) {
      const Lifetime lifetime = lifetimes_[b];
      const Units size = sizes_[b], most = capacity_ - height;
      Units highest = 0;
      for (Row s = lifetime.first; s <= lifetime.last; ++s) {
        room_[s] += size;
        highest = std::max(highest, room_[s]);
      }
      if (highest > most) return false;
      part.load = std::max(part.load, highest);
    }
    return true;
  }

  void place(Row b) {
    placed_[b] = true;
    const Units end = end_of(b);
    trail_.push_back({b, 0, true});
    for (const Row n : neighbours_[b]) {
      --open_neighbours_[n];
      if (placed_[n] || floor_[n] >= end) continue;
      trail_.push_back({n, floor_[n], false});
      floor_[n] = end;
    }
  }

  void undo(std::size_t to) {
    for (; trail_.size() > to; trail_.pop_back()) {
      const Change& change = trail_.back();
      if (change.is_placement) {
        placed_[change.row] = false;
        for (const Row n : neighbours_[change.row]) ++open_neighbours_[n];
      } else {
        floor_[change.row] = change.floor;
      }
    }
  }

  struct Change {
    Row row = 0;
    Units floor = 0;  // previous floor
    bool is_placement = false;
  };

  const std::vector<Lifetime>& lifetimes_;
  std::vector<Units> sizes_;
  std::vector<std::vector<Row>> neighbours_;
  std::vector<Units> least_neighbour_;  // size of the smallest
  std::vector<Row> twin_;               // the equal buffer placed first

  Units capacity_ = 0;
  std::uint64_t nodes_left_ = 0;
  std::vector<std::uint32_t> rank_;
  std::vector<Units> floor_;  // offset if placed, else least offset
  std::vector<bool> placed_;
  std::vector<std::uint32_t> open_neighbours_;  // number of neighbours not placed
  std::vector<Change> trail_;
  bool hopeless_ = false;  // the failed part would also fail after any other step

  std::vector<std::pair<Units, Row>> by_height_;
  std::vector<Units> room_;  // by section: bytes still to be placed
};

constexpr std::size_t order_count = 5;

/// By width (lifetime), area and total (bytes alive at the busiest time of the lifetime), greatest first, as in
/// MiniMalloc; by size per unit of lifetime; and in order of arrival.
std::array<std::vector<Row>, order_count> static_orders(const Problem& problem) {
  std::vector<std::uint64_t> live(problem.section_count);
  for (Row b = 0; b < problem.count(); ++b)
    for (Row s = problem.lifetimes[b].first; s <= problem.lifetimes[b].last; ++s) live[s] += problem.sizes[b].count;
  struct Keys {
    std::uint64_t width = 0, total = 0;
    double area = 0, density = 0;
    std::uint32_t first = 0;
  };
  std::vector<Keys> keys(problem.count());
  for (Row b = 0; b < problem.count(); ++b) {
    const Lifetime lifetime = problem.lifetimes[b];
    keys[b] = {.width = lifetime.length(),
               .total = *std::max_element(live.begin() + lifetime.first, live.begin() + lifetime.last + 1),
               .area = static_cast<double>(lifetime.length()) * static_cast<double>(problem.sizes[b].count),
               .density = static_cast<double>(problem.sizes[b].count) / static_cast<double>(lifetime.length()),
               .first = lifetime.first};
  }
  const auto sorted = [&](const auto& before) {
    std::vector<Row> order(problem.count());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](Row a, Row b) { return before(keys[a], keys[b]); });
    return order;
  };
  return {sorted([](const Keys& a, const Keys& b) {
            return std::tie(a.width, a.area, a.total) > std::tie(b.width, b.area, b.total);
          }),
          sorted([](const Keys& a, const Keys& b) {
            return std::tie(a.total, a.area, a.width) > std::tie(b.total, b.area, b.width);
          }),
          sorted([](const Keys& a, const Keys& b) {
            return std::tie(a.total, a.width, a.area) > std::tie(b.total, b.width, b.area);
          }),
          sorted([](const Keys& a, const Keys& b) {
            return std::tie(a.density, a.total, a.area) > std::tie(b.density, b.total, b.area);
          }),
          sorted([](const Keys& a, const Keys& b) { return std::tie(a.first, b.total) < std::tie(b.first, a.total); })};
}

Bytes common_unit(const Problem& problem) {
  std::uint64_t unit = 0;
  for (const Bytes size : problem.sizes) unit = std::gcd(unit, size.count);
  return {std::max<std::uint64_t>(unit, 1)};
}

/// Searches one capacity after another.
class LeastPeak {
 public:
  LeastPeak(const Problem& problem, Placement& best, std::uint64_t nodes)
      : problem_(problem),
        best_(best),
        unit_(common_unit(problem)),
        search_(problem, unit_),
        orders_(static_orders(problem)),
        nodes_(nodes),
        impossible_(static_cast<Units>(problem.load / unit_) - 1),
        possible_(static_cast<Units>(best.peak / unit_)) {}

  Bytes run() {
    for (std::uint64_t limit = 256; nodes_ > 0 && impossible_ + 1 < possible_; limit *= 4) sweep(limit);
    const Units least = impossible_ + 1;
    return unit_ * static_cast<std::uint64_t>(least);
  }

 private:
  /// Tries the lower bound first, since it is usually the answer, then bisects. A capacity given up counts as
  /// impossible until the next sweep.
  void sweep(std::uint64_t limit) {
    Units below = impossible_;
    for (Units capacity = below + 1; nodes_ > 0 && below + 1 < possible_; capacity = below + (possible_ - below) / 2) {
      const Answer answer = attempt(capacity, limit);
      if (answer == Answer::impossible) impossible_ = std::max(impossible_, capacity);
      if (answer != Answer::found) below = capacity;
    }
  }

  Answer attempt(Units capacity, std::uint64_t limit) {
    for (const auto& order : orders_) {
      const std::uint64_t nodes = std::min(limit, nodes_);
      const Answer answer = search_.run(capacity, order, nodes);
      nodes_ -= nodes - search_.nodes_left();
      if (answer == Answer::found) adopt();
      if (answer != Answer::gave_up) return answer;
    }
    return Answer::gave_up;
  }

  void adopt() {
    best_.peak = {};
    for (Row b = 0; b < problem_.count(); ++b) {
      best_.offsets[b] = unit_ * static_cast<std::uint64_t>(search_.offsets()[b]);
      best_.peak = std::max(best_.peak, best_.offsets[b] + problem_.sizes[b]);
    }
    possible_ = static_cast<Units>(best_.peak / unit_);
  }

  const Problem& problem_;
  Placement& best_;
  Bytes unit_;
  Search search_;
  std::array<std::vector<Row>, order_count> orders_;
  std::uint64_t nodes_;
  Units impossible_;  // the highest capacity known to be too small
  Units possible_;    // the lowest known to suffice
};

}  // namespace

Bytes search_below(const Problem& problem, Placement& best, std::uint64_t nodes) {
  if (best.peak <= problem.load || problem.count() > most_searched) return problem.load;
  if (best.peak / common_unit(problem) > static_cast<std::uint64_t>(most_units)) return problem.load;
  return LeastPeak(problem, best, nodes).run();
}

}  // namespace memreel::plan
