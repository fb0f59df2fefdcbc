// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "analyzer/replay/plan/local_search.h"

namespace memreel::plan {
namespace {

using Row = std::uint32_t;
using Offset = std::uint32_t;  // in units: what all sizes are multiples of
using Weight = std::int64_t;

constexpr Offset most_units = std::numeric_limits<Offset>::max() / 2;

/// The buffers in order of arrival, and which of them are alive at the same time. Immutable: searches share it.
class Overlaps {
 public:
  explicit Overlaps(const Problem& problem) : problem_(problem), buffer_of_(problem.count()) {
    std::iota(buffer_of_.begin(), buffer_of_.end(), 0U);
    std::ranges::stable_sort(buffer_of_, std::less{}, [&](std::uint32_t b) { return problem.lifetimes[b].first; });
    std::uint64_t alive = 0;
    for (const std::uint32_t b : buffer_of_) {
      lifetimes_.push_back(problem.lifetimes[b]);
      alive += problem.lifetimes[b].length();
    }
    // A quarter of what is alive at a time: as much is looked at in vain.
    step_ = std::max<Row>(16, static_cast<Row>(alive / std::max(problem.section_count, 1U) / 4));
    std::vector<Row> current;
    for (Row row = 0; row < count(); ++row) {
      if (row % step_ == 0) {
        std::erase_if(current, [&](Row r) { return lifetimes_[r].last < lifetimes_[row].first; });
        alive_at_.push_back(current);
      }
      current.push_back(row);
    }
  }

  Row count() const { return static_cast<Row>(lifetimes_.size()); }
  std::uint32_t buffer_of(Row row) const { return buffer_of_[row]; }
  const Lifetime& lifetime(Row row) const { return lifetimes_[row]; }

  /// Visits the rows alive at the same time as `row`. Returns how many were looked at.
  std::uint64_t for_each(Row row, const auto& visit) const {
    const Lifetime lifetime = lifetimes_[row];
    const std::vector<Row>& before = alive_at_[row / step_];
    const auto consider = [&](Row other) {
      if (lifetimes_[other].last < lifetime.first) return;
      if (!problem_.first_piece.empty() && !problem_.overlap(buffer_of_[row], buffer_of_[other])) return;
      visit(other);
    };
    for (const Row other : before) consider(other);
    const Row begin = row / step_ * step_;
    for (Row other = begin; other < row; ++other) consider(other);
    Row end = row + 1;
    for (; end < count() && lifetimes_[end].first <= lifetime.last; ++end) consider(end);
    return before.size() + (end - begin);
  }

 private:
  const Problem& problem_;
  std::vector<std::uint32_t> buffer_of_;
  std::vector<Lifetime> lifetimes_;
  Row step_ = 0;
  std::vector<std::vector<Row>> alive_at_;  // when every `step_`-th row arrives, of those before it
};

/// Where the sum of the weights in the way changes.
struct Edge {
  Offset at = 0;
  Row row = 0;  // the lowest bit: whether its weight is in the way no more
};

/// By offset, which is at most `most`.
void sort(std::vector<Edge>& edges, std::vector<Edge>& scratch, Offset most) {
  constexpr unsigned most_bits = 11;
  constexpr std::size_t few = 200;
  if (edges.size() < few) {
    std::ranges::sort(edges, std::less{}, &Edge::at);
    return;
  }
  scratch.resize(edges.size());
  // Digits of as few bits as the number of passes allows.
  const auto width = static_cast<unsigned>(std::bit_width(most));
  const unsigned passes = (width + most_bits - 1) / most_bits, bits = passes == 0 ? 0 : (width + passes - 1) / passes;
  for (unsigned pass = 0; pass < passes; ++pass) {
    std::array<std::uint32_t, 1U << most_bits> counts{};
    const std::span begin = std::span(counts).first(std::size_t{1} << bits);
    const auto digit = [&, shift = pass * bits](const Edge& edge) { return edge.at >> shift & (begin.size() - 1); };
    for (const Edge& edge : edges) ++begin[digit(edge)];
    std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), 0U);
    for (const Edge& edge : edges) scratch[begin[digit(edge)]++] = edge;
    edges.swap(scratch);
  }
}

/// How heavy a buffer is at first, and how much heavier it gets each time that it is taken out, in first weights.
struct Rule {
  bool counts_lifetime_fully = false;  // size^1/2 * lifetime, else (size * lifetime)^1/2
  Weight more = 1;
};

class Ejection {
 public:
  Ejection(const Overlaps& overlaps, std::vector<Offset> sizes, std::vector<Offset> offsets, const Rule& rule,
           Offset enough, Offset load)
      : overlaps_(overlaps), sizes_(std::move(sizes)), rule_(rule), enough_(enough), load_(load) {
    for (Row row = 0; row < overlaps.count(); ++row) {
      const double lifetime = overlaps.lifetime(row).length(), size = sizes_[row];
      first_weight_.push_back(1 + static_cast<Weight>(16 * (rule.counts_lifetime_fully ? std::sqrt(size) * lifetime
                                                                                       : std::sqrt(size * lifetime))));
    }
    weight_ = first_weight_;
    adopt(offsets);
  }

  Offset peak() const { return peak_; }
  Offset target() const { return target_; }
  const std::vector<Offset>& best() const { return best_; }
  bool is_done() const { return peak_ <= enough_; }

  /// Goes on from a placement found elsewhere.
  void adopt(const std::vector<Offset>& offsets) {
    offsets_ = offsets;
    placed_.assign(offsets.size(), true);
    out_ = {};
    settle();
  }

  void run(std::uint64_t effort, const std::function<bool()>& stop) {
    patience_ = 4 * effort;
    const std::uint64_t most = effort_ + effort;
    while (effort_ < most && !is_done() && !stop()) {
      if (effort_ - round_begin_ > patience_) {
        target_ += (peak_ - target_) / 2;
        step_ /= 2;
        round_begin_ = effort_;
      }
      if (out_.empty()) {
        settle();
        continue;
      }
      const Row row = out_.top().second;
      out_.pop();
      place(row);
    }
  }

 private:
  /// Keeps the placement, which is complete, and takes out what ends above a somewhat lower peak.
  void settle() {
    effort_ += sizes_.size() / 4;
    best_ = offsets_;
    peak_ = 0;
    for (Row row = 0; row < sizes_.size(); ++row) peak_ = std::max(peak_, offsets_[row] + sizes_[row]);
    if (is_done()) return;
    if (effort_ - round_begin_ < patience_ / 4) step_ = std::min(2 * step_, 0.25);
    round_begin_ = effort_;
    target_ = peak_ - std::max<Offset>(1, static_cast<Offset>(step_ * (peak_ - load_)));
    for (Row row = 0; row < sizes_.size(); ++row)
      if (offsets_[row] + sizes_[row] > target_) take_out(row);
  }

  void take_out(Row row) {
    placed_[row] = false;
    weight_[row] = std::min(weight_[row] + rule_.more * first_weight_[row], std::numeric_limits<Weight>::max() >> 24U);
    out_.emplace(weight_[row], row);
  }

  void place(Row row) {
    const auto [offset, weight] = lightest(row);
    const Offset end = offset + sizes_[row];
    if (weight > 0)
      effort_ += overlaps_.for_each(row, [&](Row other) {
        if (placed_[other] && offsets_[other] < end && offset < offsets_[other] + sizes_[other]) take_out(other);
      });
    placed_[row] = true;
    offsets_[row] = offset;
  }

  /// The offset with the least weight in the way. If nothing is, the one in the smallest gap.
  std::pair<Offset, Weight> lightest(Row row) {
    const Offset size = sizes_[row], top = target_ - size;
    edges_.clear();
    Weight lowest = 0;  // in the way at offset 0
    effort_ += overlaps_.for_each(row, [&](Row other) {
      if (!placed_[other]) return;
      const Offset begin = offsets_[other], end = begin + sizes_[other];
      if (begin < size)
        lowest += weight_[other];
      else if (begin - size < top)
        edges_.push_back({begin - size + 1, other << 1U});
      if (end <= top) edges_.push_back({end, other << 1U | 1U});
    });
    sort(edges_, scratch_, top);
    std::pair<Offset, Weight> best{0, std::numeric_limits<Weight>::max()};
    Weight weight = lowest;
    Offset at = 0, width = 0;
    const auto consider_up_to = [&](Offset next) {
      if (next > at && (weight < best.second || (weight == 0 && next - at < width))) {
        best = {at, weight};
        width = next - at;
      }
      at = next;
    };
    for (const Edge& edge : edges_) {
      consider_up_to(edge.at);
      const Weight change = weight_[edge.row >> 1U], sign = -static_cast<Weight>(edge.row & 1U);
      weight += (change ^ sign) - sign;
    }
    consider_up_to(top + 1);
    return best;
  }

  const Overlaps& overlaps_;
  std::vector<Offset> sizes_;  // by row, as all that follows
  Rule rule_;
  Offset enough_, load_;
  std::vector<Weight> first_weight_, weight_;
  std::vector<Offset> best_;  // the complete placement with the lowest peak
  Offset peak_ = 0;           // of it
  Offset target_ = 0;
  std::vector<Offset> offsets_;
  std::vector<char> placed_;
  std::priority_queue<std::pair<Weight, Row>> out_;
  std::uint64_t effort_ = 0, round_begin_ = 0, patience_ = 0;
  double step_ = 1.0 / 16;
  std::vector<Edge> edges_, scratch_;  // of one query
};

Bytes unit_of(const Problem& problem) {
  std::uint64_t unit = 0;
  for (const Bytes size : problem.sizes) unit = std::gcd(unit, size.count);
  return {std::max<std::uint64_t>(unit, 1)};
}

}  // namespace

Placement lower_the_peak(const Problem& problem, const Placement& start, const Placement& other_start,
                         const ImproveLimits& limits) {
  Placement found = start.peak < other_start.peak ? start : other_start;
  const Bytes unit = unit_of(problem);
  const auto is_whole = [&](Bytes offset) { return offset.count % unit.count == 0; };
  if (found.peak <= limits.enough || std::max(start.peak, other_start.peak) / unit > most_units ||
      !std::ranges::all_of(start.offsets, is_whole) || !std::ranges::all_of(other_start.offsets, is_whole))
    return found;
  const Overlaps overlaps(problem);
  const auto in_units = [&](const std::vector<Bytes>& by_buffer) {
    std::vector<Offset> by_row;
    for (Row row = 0; row < overlaps.count(); ++row)
      by_row.push_back(static_cast<Offset>(by_buffer[overlaps.buffer_of(row)] / unit));
    return by_row;
  };
  const std::vector<Offset> sizes = in_units(problem.sizes);
  const auto enough = static_cast<Offset>(limits.enough / unit), load = static_cast<Offset>(problem.load / unit);
  std::array<Ejection, 2> searches{
      Ejection(overlaps, sizes, in_units(start.offsets), {.counts_lifetime_fully = true, .more = 1}, enough, load),
      Ejection(overlaps, sizes, in_units(other_start.offsets), {.more = 2}, enough, load)};
  const auto better = [&]() -> const Ejection& {
    return *std::ranges::min_element(searches, std::less{}, &Ejection::peak);
  };
  // Which rule finds more depends on the problem: both search, and tell each other from time to time what they have
  // found. When is counted, not timed, so that threads make no difference.
  constexpr std::uint64_t slices = 32;
  const std::uint64_t effort = limits.effort / searches.size() / slices;
  for (std::uint64_t slice = 0; slice < slices && !better().is_done() && !limits.stop(); ++slice) {
    const Offset before = better().peak();
    {
      const auto run = [&](Ejection& search) { search.run(effort, limits.stop); };
      std::vector<std::jthread> threads;
      if (limits.threads > 1)
        threads.emplace_back(run, std::ref(searches[1]));
      else
        run(searches[1]);
      run(searches[0]);
    }
    if (better().peak() < before) limits.progress(unit * better().peak());
    const std::vector<Offset> best = better().best();
    for (Ejection& search : searches)
      if (better().peak() <= search.target() && !better().is_done()) search.adopt(best);
  }
  if (unit * better().peak() >= found.peak) return found;
  found.peak = unit * better().peak();
  for (Row row = 0; row < overlaps.count(); ++row) found.offsets[overlaps.buffer_of(row)] = unit * better().best()[row];
  return found;
}

namespace {

using Index = std::uint32_t;

class MakingRoom {
 public:
  MakingRoom(std::vector<Tenant>& tenants, Bytes most, std::uint64_t effort)
      : tenants_(tenants), effort_(effort), stays_until_(tenants.size()) {
    for (Index i = 0; i < tenants.size(); ++i) {
      const Tenant& tenant = tenants[i];
      unit_.count = std::gcd(std::gcd(unit_.count, tenant.size.count), tenant.is_out ? 0 : tenant.offset.count);
      costs_.push_back(cost_of(tenant));
      if (tenant.is_out) out_.push_back(i);
    }
    if (tenants.empty()) return;
    most_ = unit_ * (most / unit_);
    find_neighbours();
  }

  bool run() {
    while (!out_.empty() && looked_at_ < effort_) {
      ++step_;
      const std::size_t chosen = random_() % out_.size();
      if (const std::optional<Bytes> offset = lightest(out_[chosen])) {
        const Index tenant = std::exchange(out_[chosen], out_.back());
        out_.pop_back();
        put(tenant, *offset);
      }
    }
    return out_.empty();
  }

 private:
  static double cost_of(const Tenant& tenant) {
    constexpr double of_size = 1.2, of_time = 1.5;  // found by trying
    return std::pow(static_cast<double>(tenant.size.count), of_size) * std::pow(tenant.lifetime.length(), of_time);
  }

  void find_neighbours() {
    first_neighbour_.push_back(0);
    std::uint32_t longest = 0;
    for (const Tenant& tenant : tenants_) longest = std::max(longest, tenant.lifetime.length());
    for (Index i = 0; i < tenants_.size() && looked_at_ < effort_; ++i) {
      const Lifetime lifetime = tenants_[i].lifetime;
      if (!tenants_[i].stays) {
        const auto first = [](const Tenant& tenant) { return tenant.lifetime.first; };
        const auto begin = std::ranges::lower_bound(tenants_, lifetime.first - std::min(lifetime.first, longest - 1),
                                                    std::less{}, first);
        for (auto j = static_cast<Index>(begin - tenants_.begin());
             j < tenants_.size() && tenants_[j].lifetime.first <= lifetime.last; ++j)
          if (j != i && tenants_[j].lifetime.overlaps(lifetime)) neighbours_.push_back(j);
      }
      first_neighbour_.push_back(neighbours_.size());
      looked_at_ = neighbours_.size();
    }
  }

  std::span<const Index> neighbours(Index i) const {
    return std::span(neighbours_).subspan(first_neighbour_[i], first_neighbour_[i + 1] - first_neighbour_[i]);
  }

  bool may_move(Index i) const { return !tenants_[i].stays && stays_until_[i] < step_; }

  /// Where what is in the way has the least cost; of several places without anything, in the smallest gap.
  std::optional<Bytes> lightest(Index i) {
    const Bytes size = tenants_[i].size;
    looked_at_ += 1 + neighbours(i).size();
    if (size > most_) return std::nullopt;
    const Bytes top = most_ - size;
    edges_.clear();
    Weight weight;
    for (const Index other : neighbours(i)) {
      const Tenant& tenant = tenants_[other];
      if (tenant.is_out) continue;
      const Bytes begin = tenant.offset, end = begin + tenant.size;
      const Weight own = may_move(other) ? Weight{.cost = costs_[other], .movable = 1} : Weight{.fixed = 1};
      if (begin < size)
        weight += own;
      else if (begin - size < top)
        edges_.push_back({begin - size + unit_, own});
      if (end <= top) edges_.push_back({end, Weight{} - own});
    }
    std::ranges::sort(edges_, std::less{}, &Edge::at);
    std::optional<Bytes> best;
    double least = std::numeric_limits<double>::infinity();
    Bytes at, width;
    const auto consider_up_to = [&](Bytes next) {
      if (next > at && weight.fixed == 0) {
        const double cost = weight.movable == 0 ? 0 : weight.cost;  // not what rounding has left of it
        if (cost < least || (cost == 0 && least == 0 && next - at < width)) {
          least = cost;
          width = next - at;
          // Next to either neighbour, at random, where something has to go.
          best = cost > 0 && (random_() & 1U) != 0 ? next - unit_ : at;
        }
      }
      at = next;
    };
    for (const Edge& edge : edges_) {
      consider_up_to(edge.at);
      weight += edge.change;
    }
    consider_up_to(top + unit_);
    return best;
  }

  void put(Index i, Bytes offset) {
    constexpr std::uint64_t longest_tenure = 30;  // steps
    Tenant& tenant = tenants_[i];
    for (const Index other : neighbours(i)) {
      Tenant& each = tenants_[other];
      if (each.is_out || each.offset >= offset + tenant.size || offset >= each.offset + each.size) continue;
      each.is_out = true;
      out_.push_back(other);
    }
    tenant.is_out = false;
    tenant.offset = offset;
    stays_until_[i] = step_ + 1 + random_() % longest_tenure;
  }

  /// Of what is in the way.
  struct Weight {
    double cost = 0;  // of what may move
    int movable = 0, fixed = 0;

    Weight& operator+=(const Weight& other) {
      cost += other.cost;
      movable += other.movable;
      fixed += other.fixed;
      return *this;
    }
    friend Weight operator-(const Weight& a, const Weight& b) {
      return {.cost = a.cost - b.cost, .movable = a.movable - b.movable, .fixed = a.fixed - b.fixed};
    }
  };

  struct Edge {
    Bytes at;
    Weight change;
  };

  std::vector<Tenant>& tenants_;
  Bytes unit_;  // what all sizes and offsets are multiples of
  Bytes most_;  // of it, too
  std::uint64_t effort_, looked_at_ = 0, step_ = 0;
  std::vector<std::uint64_t> stays_until_;  // a step
  std::vector<double> costs_;
  std::vector<Index> neighbours_;  // of each that may move
  std::vector<std::size_t> first_neighbour_;
  std::vector<Index> out_;
  std::vector<Edge> edges_;  // of one query
  std::mt19937 random_{1};
};

}  // namespace

bool make_room(std::vector<Tenant>& tenants, Bytes most, std::uint64_t effort) {
  return MakingRoom(tenants, most, effort).run();
}

}  // namespace memreel::plan
