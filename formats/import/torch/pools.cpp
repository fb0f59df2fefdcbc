// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/pools.h"

#include <map>
#include <set>
#include <tuple>

namespace memreel::torch {
namespace {

/// Maximum number of better blocks considered per placement: more are rare and add nothing.
constexpr int most_evidence = 64;
/// Costs in steps, of some ten instructions each: of looking at a free block; of noting that two units differ, in
/// memory rather than time; of asking whether a unit may be in a pool.
constexpr std::uint64_t cost_of_a_look = 8, cost_of_a_pair = 32, cost_of_a_try = 32;

class EvidenceFinder {
 public:
  EvidenceFinder(const DeviceHistory& history, const PoolStreams& pool_streams, const TorchSettings& rules,
                 std::span<const ReleaseRun> runs, Effort& effort)
      : history_(history), pool_streams_(pool_streams), rules_(rules), runs_(runs), effort_(effort), heap_(rules) {}

  std::optional<PoolEvidence> find(std::span<const PreexistingSegment> initial) {
    begin(initial);
    auto run = runs_.begin();
    for (std::size_t i = 0; i < history_.entries.count(); ++i) {
      if (effort_.spent()) return std::nullopt;
      if (run != runs_.end() && run->first == i) judge(*run++);
      found_.unit_of.push_back(follow(i));
    }
    for (const Segment& segment : history_.segments) {
      const UnitId unit = heap_.unit_at(segment.address.value);
      if (unit != UnitId::none) facts(unit).known = pool_streams_[segment.pool_stream].pool.value_or(PoolKey{});
    }
    return std::move(found_);
  }

 private:
  PoolEvidence::UnitFacts& facts(UnitId unit) { return found_.units[static_cast<std::size_t>(unit)]; }
  std::uint64_t stream_of(const Entry& entry) const { return pool_streams_[entry.pool_stream()].stream; }

  void differ(UnitId a, UnitId b) {
    if (a == b || a == UnitId::none || b == UnitId::none) return;
    if (found_.differ.put({std::min(a, b), std::max(a, b)}, 0) != absent) return;
    facts(a).differs = facts(b).differs = true;
    effort_.add(cost_of_a_pair);
  }

  void begin(std::span<const PreexistingSegment> initial) {
    found_.initial_unit = heap_.begin(initial, [&](PoolStreamId id) { return pool_streams_[id].stream; });
    for (std::size_t i = 0; i < initial.size(); ++i) {
      const UnitId unit = found_.initial_unit[i];
      if (static_cast<std::size_t>(unit) == found_.units.size()) note_unit(unit, 0);
      std::uint64_t address = initial[i].address.value;
      for (const InitialBlock& block : initial[i].blocks) {
        if (block.use == InitialUse::pending) pending_[address] = unit;
        address += block.size.count;
      }
    }
  }

  /// Returns the unit that contains the entry's address.
  UnitId follow(std::size_t i) {
    const Entry& entry = history_.entries[i];
    switch (entry.action()) {
      case Action::segment_alloc:
      case Action::segment_map:
        return acquire(entry, i);
      case Action::segment_free:
      case Action::segment_unmap: {
        const UnitId unit = heap_.release(entry);
        if (unit == UnitId::none) return unit;
        facts(unit).released = std::min(facts(unit).released, i);
        if (!heap_.alive().contains(unit)) facts(unit).end = i + 1;
        return unit;
      }
      case Action::alloc:
        return pool_stream(entry, i);
      case Action::free_requested:
        if (const UnitId unit = heap_.unit_at(entry.address); unit != UnitId::none) pending_[entry.address] = unit;
        return UnitId::none;
      case Action::free_completed:
        pending_.erase(entry.address);
        return heap_.complete(entry);
      default:
        return UnitId::none;
    }
  }

  UnitId acquire(const Entry& entry, std::size_t i) {
    const UnitId unit = heap_.acquire(entry, stream_of(entry));
    if (static_cast<std::size_t>(unit) == found_.units.size()) note_unit(unit, i + 1);
    facts(unit).last_needed = i;
    return unit;
  }

  /// The latest unit. `begin`: the number of entries after which it exists.
  void note_unit(UnitId unit, std::size_t begin) {
    found_.units.push_back({.before = heap_[unit].before, .begin = begin});
    if (heap_[unit].expandable) facts(unit).range = {heap_[unit].stream, heap_[unit].small};
    if (!rules_.expandable || rules_.expands(true)) return;
    if (heap_[unit].expandable)
      facts(unit).known = PoolKey{};
    else
      facts(unit).not_default = true;
  }

  UnitId pool_stream(const Entry& entry, std::size_t i) {
    const auto placement = heap_.placement(entry);
    if (!placement) return UnitId::none;
    const UnitId unit = placement->block.unit;
    int evidence = 0;
    const std::uint64_t looks =
        heap_.for_each_better(*placement, effort_.left() / cost_of_a_look + 1, [&](const FreeBlock& better) {
          differ(unit, better.unit);
          return ++evidence < most_evidence;
        });
    effort_.add(looks * cost_of_a_look);
    heap_.take(*placement);
    facts(unit).last_needed = i;
    if (heap_[unit].no_split) facts(unit).not_default = true;
    return unit;
  }

  /// What a run of releases reveals, before it is applied.
  void judge(const ReleaseRun& run) {
    if (!run.is_call) return;
    GivingBack giving{.entry = run.first, .is_empty_cache = run.is_empty_cache};
    std::set<UnitId> gone;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const Entry& entry = history_.entries[i];
      const std::optional<FreeBlock> block = heap_.free_block_at(entry.address);
      if (!block) return;
      giving.parts.push_back({.unit = block->unit,
                              .small = heap_[block->unit].small,
                              .mapped = entry.action() == Action::segment_unmap,
                              .stream = stream_of(entry),
                              .block = *block});
      gone.insert(block->unit);
    }
    effort_.add(heap_.with_unused().size() + gone.size());
    for (const UnitId kept : heap_.with_unused()) {
      if (gone.contains(kept)) continue;
      giving.kept.push_back(kept);
      if (run.is_empty_cache) {
        facts(kept).not_default = true;
        facts(kept).last_needed = run.first;
      }
      effort_.add(gone.size());
      if (effort_.spent()) return;
      for (const UnitId unit : gone) differ(unit, kept);
    }
    // A pool that releases waits until freed memory is no longer in use; when the default pool does, nothing is
    // pending.
    if (!run.is_empty_cache && !pending_.empty()) {
      for (const UnitId unit : gone) facts(unit).not_default = true;
      for (const auto& [address, pending] : pending_) {
        effort_.add(gone.size());
        if (effort_.spent()) return;
        if (gone.contains(pending)) continue;
        giving.kept.push_back(pending);
        for (const UnitId unit : gone) differ(unit, pending);
      }
    }
    found_.givings.push_back(std::move(giving));
  }

  const DeviceHistory& history_;
  const PoolStreams& pool_streams_;
  const TorchSettings& rules_;
  std::span<const ReleaseRun> runs_;
  Effort& effort_;
  RecordedHeap heap_;
  std::map<std::uint64_t, UnitId> pending_;  // by address: freed, but possibly still used by the device
  PoolEvidence found_;
};

}  // namespace

std::optional<PoolEvidence> find_pool_evidence(const DeviceHistory& history,
                                               std::span<const PreexistingSegment> initial,
                                               const PoolStreams& pool_streams, const TorchSettings& rules,
                                               std::span<const ReleaseRun> runs, Effort& effort) {
  return EvidenceFinder(history, pool_streams, rules, runs, effort).find(initial);
}

namespace {

bool is_private(const PoolStreams& pool_streams, PoolStreamId pool_stream) {
  return pool_streams[pool_stream].pool.value_or(PoolKey{}) != PoolKey{};
}

/// The pool of an unmapped range: that of a neighbour in the same address reservation.
PoolKey pool_of_unmapped(const RangeMap<PoolStreamId>& known, const PoolStreams& pool_streams, const Entry& entry) {
  const Range range = Range::of(entry.address, entry.size);
  for (const std::uint64_t neighbour : {range.begin - 1, range.end}) {
    const auto item = known.at(neighbour);
    if (item && pool_streams[item->value].stream == pool_streams[entry.pool_stream()].stream)
      return pool_streams[item->value].pool.value_or(PoolKey{});
  }
  return {};
}

}  // namespace

void infer_pools(DeviceHistory& history, PoolStreams& pool_streams) {
  // Entries without a pool count as the default pool's, so this is only needed if there is another pool.
  const auto& segments = history.segments;
  if (std::none_of(segments.begin(), segments.end(),
                   [&](const Segment& s) { return is_private(pool_streams, s.pool_stream); }))
    return;
  RangeMap<PoolStreamId> known;
  for (const Segment& segment : segments)
    known.set(Range::of(segment.address.value, segment.size.count), segment.pool_stream);
  // Backwards, because the end is what is known.
  for (std::size_t i = history.entries.count(); i-- > 0;) {
    Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (!has_address(action)) continue;
    PoolStream pool_stream = pool_streams[entry.pool_stream()];
    if (!pool_stream.pool) {
      if (action == Action::segment_unmap) {
        pool_stream.pool = pool_of_unmapped(known, pool_streams, entry);
      } else if (action != Action::segment_free) {
        const auto item = known.at(entry.address);
        if (item) pool_stream.pool = pool_streams[item->value].pool;
      }
      entry.set(action, pool_streams.id(pool_stream));
    }
    if (releases_segment(action)) known.set(Range::of(entry.address, entry.size), entry.pool_stream());
  }
}

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
    effort_.add(cost_of_a_try);
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
