// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/make_room.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>

namespace memreel::plan {
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
