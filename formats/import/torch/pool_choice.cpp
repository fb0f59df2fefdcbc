#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "formats/import/torch/pool_evidence.h"

namespace memreel::torch {
namespace {

constexpr PoolKey default_pool{};

/// Whether a pool may release one right after the other.
bool in_order(const GivenBack& a, const GivenBack& b, bool is_default) {
  const auto key = [&](const GivenBack& part) {
    return std::tuple(part.small == is_default, part.mapped, part.stream, part.block.size, part.block.address);
  };
  return key(a) <= key(b);
}

class PoolChoice {
 public:
  PoolChoice(const PoolEvidence& evidence, Effort& effort)
      : evidence_(evidence),
        effort_(effort),
        units_(evidence.units),
        pools_(evidence.units.size()),
        shows_up_(evidence.units.size()) {
    for (std::size_t g = 0; g < evidence.givings.size(); ++g) {
      const auto& parts = evidence.givings[g].parts;
      for (std::size_t i = 0; i < parts.size(); ++i) shows_up_[number(parts[i].unit)].push_back({g, i});
    }
  }

  std::optional<std::vector<PoolKey>> choose() {
    for (const UnitId unit : all_units())
      if (units_[number(unit)].known) assign({unit}, *units_[number(unit)].known);
    for (const UnitId unit : all_units()) {
      tried_.clear();
      if (units_[number(unit)].known) try_pool(unit, units_[number(unit)].known, false);
    }
    for (const UnitId unit : all_units()) {
      if (!pools_[number(unit)]) choose_for(unit);
      if (effort_.spent()) return std::nullopt;
    }
    std::vector<PoolKey> pools;
    for (const std::optional<PoolKey>& pool : pools_) pools.push_back(pool.value_or(default_pool));
    return pools;
  }

 private:
  struct Appearance {
    std::size_t giving = 0;
    std::size_t part = 0;
  };
  /// The parts of one release that belong to one pool, including all between them.
  struct Stretch {
    std::size_t first = 0, last = 0;
  };
  /// Units that can only belong to a pool together.
  struct Group {
    std::vector<UnitId> units;
    std::map<std::size_t, Stretch> stretches;  // by giving

    bool contains(UnitId unit) const { return std::find(units.begin(), units.end(), unit) != units.end(); }
  };

  std::vector<UnitId> all_units() const {
    std::vector<UnitId> ids(pools_.size());
    for (std::uint32_t i = 0; i < ids.size(); ++i) ids[i] = UnitId{i};
    return ids;
  }
  static std::size_t number(UnitId id) { return static_cast<std::size_t>(id); }
  const std::vector<GivenBack>& parts(std::size_t giving) const { return evidence_.givings[giving].parts; }

  void choose_for(UnitId unit) {
    tried_.clear();
    const bool ends = ends_a_pool(unit);
    if (!ends && try_pool(unit, default_pool, false)) return;
    // A pool's release at its end is attributed to one pool rather than several destroyed together.
    if (try_private_pools(unit, true)) return;
    if (ends && try_pool(unit, default_pool, false)) return;
    if (try_private_pools(unit, false)) return;
    // Contradictory: it gets a pool of its own.
    ++inferred_;
    assign({unit}, {inferred_, inferred_});
  }

  /// Whether it was released together with what looks like a whole pool, other than the default one.
  bool ends_a_pool(UnitId unit) const {
    return std::any_of(shows_up_[number(unit)].begin(), shows_up_[number(unit)].end(), [&](const Appearance& at) {
      const auto& all = parts(at.giving);
      return !evidence_.givings[at.giving].is_empty_cache && all.front().small && !all.back().small &&
             std::adjacent_find(all.begin(), all.end(), [](const GivenBack& a, const GivenBack& b) {
               return !in_order(a, b, false);
             }) == all.end();
    });
  }

  /// `whole` as for group_of().
  bool try_private_pools(UnitId unit, bool whole) {
    tried_ = {default_pool};
    const UnitId before = units_[number(unit)].before;
    if (before != UnitId::none && try_pool(unit, pools_[number(before)], whole)) return true;
    for (std::size_t j = number(unit); j-- > 0;)
      if (try_pool(unit, pools_[j], whole)) return true;
    for (std::size_t j = number(unit) + 1; j < pools_.size(); ++j)
      if (try_pool(unit, pools_[j], whole)) return true;
    if (!try_pool(unit, PoolKey{inferred_ + 1, inferred_ + 1}, whole)) return false;
    ++inferred_;
    return true;
  }

  void assign(const std::vector<UnitId>& units, const PoolKey& pool) {
    for (const UnitId unit : units) {
      pools_[number(unit)] = pool;
      members_[pool].insert(unit);
    }
  }

  bool try_pool(UnitId unit, const std::optional<PoolKey>& pool, bool whole) {
    effort_.add(1);
    if (!pool || effort_.spent() || !tried_.insert(*pool).second) return false;
    const std::optional<Group> group = group_of(unit, *pool, whole);
    if (!group) return false;
    const auto members = members_.find(*pool);
    for (const UnitId member : group->units) {
      if (!fits(member, *pool, group->units)) return false;
      if (members != members_.end() && !fits(member, *pool, members->second)) return false;
    }
    for (const auto& [giving, stretch] : group->stretches)
      for (std::size_t i = stretch.first; i < stretch.last; ++i)
        if (!in_order(parts(giving)[i], parts(giving)[i + 1], *pool == default_pool)) return false;
    if (*pool == default_pool && !empties_the_cache(*group)) return false;
    assign(group->units, *pool);
    return true;
  }

  /// Whether the default pool's release may be an emptied cache, so that what was kept then belongs to pools that still
  /// exist. Records that it is.
  bool empties_the_cache(const Group& group) {
    for (const auto& [giving, stretch] : group.stretches) {
      const GivingBack& all = evidence_.givings[giving];
      for (const UnitId kept : all.kept) {
        const auto& pool = pools_[number(kept)];
        if (pool == default_pool) return false;
        if (!pool) continue;
        effort_.add(members_[*pool].size());
        for (const UnitId member : members_[*pool])
          if (units_[number(member)].released <= all.entry) return false;
      }
    }
    for (const auto& [giving, stretch] : group.stretches) {
      for (const UnitId kept : evidence_.givings[giving].kept) {
        auto& facts = units_[number(kept)];
        facts.not_default = true;
        facts.last_needed = std::max(facts.last_needed, evidence_.givings[giving].entry);
      }
    }
    return true;
  }

  /// The units that go to the pool with `unit`, because they were released between members of the pool. None if some
  /// belong to another pool. `whole`: also those released together with them when a pool was destroyed.
  std::optional<Group> group_of(UnitId unit, const PoolKey& pool, bool whole) {
    Group group{.units = {unit}};
    for (std::size_t next = 0; next < group.units.size(); ++next) {
      for (const Appearance& at : shows_up_[number(group.units[next])]) {
        Stretch stretch = stretch_of(group, at, pool);
        if (whole && pool != default_pool && !evidence_.givings[at.giving].is_empty_cache) widen(stretch, at.giving);
        group.stretches[at.giving] = stretch;
        effort_.add(stretch.last - stretch.first + 1);
        for (std::size_t i = stretch.first; i <= stretch.last; ++i) {
          const UnitId inside = parts(at.giving)[i].unit;
          const std::optional<PoolKey>& its = pools_[number(inside)];
          if (its && *its != pool) return std::nullopt;
          if (its) continue;
          effort_.add(group.units.size());
          if (effort_.spent()) return std::nullopt;
          if (!group.contains(inside)) group.units.push_back(inside);
        }
      }
    }
    return group;
  }

  /// From the first to the last part of the release that belongs to the pool, or that `at` names. The default pool's
  /// come first.
  Stretch stretch_of(const Group& group, const Appearance& at, const PoolKey& pool) {
    Stretch stretch{at.part, at.part};
    if (const auto known = group.stretches.find(at.giving); known != group.stretches.end())
      stretch = {std::min(at.part, known->second.first), std::max(at.part, known->second.last)};
    if (pool == default_pool) return {0, stretch.last};
    const auto& all = parts(at.giving);
    effort_.add(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (pools_[number(all[i].unit)] == pool) stretch = {std::min(i, stretch.first), std::max(i, stretch.last)};
    return stretch;
  }

  /// Widens it to everything that a pool may have released with it.
  void widen(Stretch& stretch, std::size_t giving) const {
    const auto& all = parts(giving);
    while (stretch.first > 0 && in_order(all[stretch.first - 1], all[stretch.first], false)) --stretch.first;
    while (stretch.last + 1 < all.size() && in_order(all[stretch.last], all[stretch.last + 1], false)) ++stretch.last;
  }

  /// Whether `unit` may belong to `pool` together with `others`.
  bool fits(UnitId unit, const PoolKey& pool, const auto& others) {
    const auto& facts = units_[number(unit)];
    if (pool == default_pool && facts.not_default) return false;
    effort_.add(others.size());
    return std::ranges::all_of(others, [&](UnitId id) {
      if (evidence_.are_apart(unit, id)) return false;
      const auto& other = units_[number(id)];
      if (pool == default_pool || id == unit) return true;
      return facts.last_needed < other.released && other.last_needed < facts.released;
    });
  }

  const PoolEvidence& evidence_;
  Effort& effort_;
  std::vector<PoolEvidence::UnitFacts> units_;     // including what the choice adds to them
  std::vector<std::optional<PoolKey>> pools_;      // by unit
  std::vector<std::vector<Appearance>> shows_up_;  // by unit
  std::map<PoolKey, std::set<UnitId>> members_;
  std::set<PoolKey> tried_;
  std::uint64_t inferred_ = 0;
};

}  // namespace

std::optional<std::vector<PoolKey>> choose_pools(const PoolEvidence& evidence, Effort& effort) {
  return PoolChoice(evidence, effort).choose();
}

}  // namespace memreel::torch
