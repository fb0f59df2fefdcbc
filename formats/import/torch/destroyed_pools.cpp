#include "formats/import/torch/destroyed_pools.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "formats/import/torch/recorded_heap.h"

namespace memreel::torch {
namespace {

/// Better blocks that one placement may speak of: more are rare and tell nothing new.
constexpr int most_evidence = 64;
/// Steps that no program's history takes, so that nonsense does not take for ever: some seconds.
constexpr std::uint64_t most_work = 100'000'000;

class PoolFinder {
 public:
  PoolFinder(const DeviceHistory& history, const Places& places, const AllocatorRules& rules,
             std::span<const ReleaseRun> runs)
      : history_(history), places_(places), runs_(runs), heap_(rules) {}

  /// The pool of each unit; nothing when it would take too long to tell.
  std::vector<PoolKey> find() {
    auto run = runs_.begin();
    for (std::size_t i = 0; i < history_.entries.count(); ++i) {
      if (work_ > most_work) return {};
      if (run != runs_.end() && run->first == i) judge(*run++);
      follow(i);
    }
    for (const Segment& segment : history_.segments) learn(segment);
    std::vector<PoolKey> pools = choose();
    while (work_ <= most_work && learn_turns(pools)) pools = choose();
    if (work_ > most_work) return {};
    return pools;
  }

  /// Which unit each entry with an address belongs to.
  const std::vector<UnitId>& units() const { return unit_of_; }

 private:
  static constexpr PoolKey default_pool{};

  /// Moments of a unit, as entries.
  struct Span {
    std::size_t got = 0;
    std::size_t kept = 0;                                            // last, unused, while the cache was emptied
    std::size_t released = std::numeric_limits<std::size_t>::max();  // any of it, first

    std::size_t last_needed() const { return std::max(got, kept); }
  };

  static std::size_t number(UnitId id) { return static_cast<std::size_t>(id); }
  std::uint64_t stream_of(const Entry& entry) const { return places_[entry.place()].stream; }

  void differ(UnitId a, UnitId b) {
    if (a == b || a == UnitId::none || b == UnitId::none) return;
    others_[a].insert(b);
    others_[b].insert(a);
  }

  void follow(std::size_t i) {
    const Entry& entry = history_.entries[i];
    UnitId unit = UnitId::none;
    const Action action = entry.action();
    if (acquires_segment(action)) {
      unit = heap_.acquire(entry, stream_of(entry));
      work_ += heap_.alive().size();
      if (number(unit) == spans_.size()) {
        spans_.push_back({.got = i});
        if (action == Action::segment_map) tell_ranges_apart(unit);
      }
    } else if (releases_segment(action)) {
      unit = heap_.release(entry);
      if (unit != UnitId::none) spans_[number(unit)].released = std::min(spans_[number(unit)].released, i);
    } else if (action == Action::alloc) {
      if (const auto placement = heap_.placement(entry)) {
        unit = placement->block.unit;
        int evidence = 0;
        heap_.for_each_better(*placement, [&](const FreeBlock& better) {
          differ(unit, better.unit);
          return ++evidence < most_evidence;
        });
        heap_.take(*placement);
      }
    } else if (action == Action::free_completed) {
      unit = heap_.complete(entry);
    }
    unit_of_.push_back(unit);
  }

  void tell_ranges_apart(UnitId unit) {
    for (const UnitId other : heap_.alive())
      if (heap_[other].expandable && heap_[other].stream == heap_[unit].stream &&
          heap_[other].small == heap_[unit].small)
        differ(unit, other);
  }

  /// What a run of releases tells, before it happens.
  void judge(const ReleaseRun& run) {
    if (!run.is_call) return;
    std::vector<UnitId> released;
    std::vector<bool> starts_again;  // in the order within a pool: by class, stream, size and address
    for (std::size_t i = run.first; i < run.end; ++i) {
      const Entry& entry = history_.entries[i];
      const UnitId unit = heap_.unit_at(entry.address);
      if (unit == UnitId::none) return;
      starts_again.push_back(!released.empty() && !in_order(history_.entries[i - 1], released.back(), entry, unit));
      released.push_back(unit);
    }
    // A pool by itself gives back small ones first.
    const bool all_pools = run.is_empty_cache || (!heap_[released.front()].small &&
                                                  std::any_of(released.begin(), released.end(),
                                                              [&](UnitId unit) { return heap_[unit].small; }));
    if (all_pools)
      judge_turns(released, starts_again);
    else if (heap_[released.front()].small && !heap_[released.back()].small)
      not_default_.insert(released.begin(), released.end());
    const std::set<UnitId> gone(released.begin(), released.end());
    work_ += heap_.alive().size() + released.size();
    for (const UnitId kept : heap_.alive()) {
      if (gone.contains(kept) || !heap_.has_unused(kept)) continue;
      if (all_pools) {
        not_default_.insert(kept);
        spans_[number(kept)].kept = run.first;
      }
      for (const UnitId unit : gone) differ(unit, kept);
    }
    releases_.push_back(std::move(released));
  }

  /// Each in its turn: the default pool's large blocks, its small ones, then the other pools' small and large ones.
  void judge_turns(const std::vector<UnitId>& released, const std::vector<bool>& starts_again) {
    enum class Turn : std::uint8_t { default_large, default_small, others } turn = Turn::default_large;
    std::vector<UnitId> pool;  // that may be one
    for (std::size_t i = 0; i < released.size(); ++i) {
      const bool small = heap_[released[i]].small;
      if (turn == Turn::default_small && (!small || starts_again[i])) turn = Turn::others;
      if (turn == Turn::default_large && (small || starts_again[i])) turn = small ? Turn::default_small : Turn::others;
      if (turn != Turn::others) continue;
      not_default_.insert(released[i]);
      if (!pool.empty() && (starts_again[i] || (small && !heap_[pool.back()].small))) {
        for (const UnitId other : pool) differ(released[i], other);
        pool.clear();
      }
      pool.push_back(released[i]);
    }
  }

  /// Whether two segments of one class may follow one another when a pool gives them back. Of mappings the sizes of the
  /// free blocks that they were are not known.
  bool in_order(const Entry& a, UnitId unit_of_a, const Entry& b, UnitId unit_of_b) const {
    if (heap_[unit_of_a].small != heap_[unit_of_b].small) return true;
    const bool mapped = a.action() == Action::segment_unmap;
    if (mapped != (b.action() == Action::segment_unmap)) return !mapped;
    const std::array streams{stream_of(a), stream_of(b)};
    if (mapped || streams[0] != streams[1]) return streams[0] <= streams[1];
    return std::pair(a.size, a.address) < std::pair(b.size, b.address);
  }

  /// The units that are there at the end.
  void learn(const Segment& segment) {
    const UnitId unit = heap_.unit_at(segment.address.value);
    if (unit != UnitId::none) known_[unit] = places_[segment.place].pool.value_or(default_pool);
  }

  /// The default pool's turn to give back is the first. Whether that told anything new.
  bool learn_turns(const std::vector<PoolKey>& pools) {
    const std::size_t known = not_default_.size();
    for (const std::vector<UnitId>& released : releases_) {
      const auto other = std::find_if(released.begin(), released.end(),
                                      [&](UnitId unit) { return pools[number(unit)] != default_pool; });
      not_default_.insert(other, released.end());
    }
    return not_default_.size() > known;
  }

  std::vector<PoolKey> choose() {
    std::vector<PoolKey> pools(heap_.unit_count());
    members_.clear();
    for (const auto& [unit, pool] : known_) assign(unit, pool, pools);
    std::uint64_t inferred = 0;
    for (std::uint32_t i = 0; i < pools.size(); ++i) {
      if (known_.contains(UnitId{i})) continue;
      std::optional<PoolKey> pool = best_fitting(UnitId{i}, pools);
      if (!pool) {
        ++inferred;
        pool = PoolKey{inferred, inferred};
      }
      assign(UnitId{i}, *pool, pools);
    }
    return pools;
  }

  void assign(UnitId unit, const PoolKey& pool, std::vector<PoolKey>& pools) {
    pools[number(unit)] = pool;
    members_[pool].insert(unit);
  }

  /// The first pool that nothing contradicts: the default one, that of the request before, those of the segments got
  /// before, the latest first, and what is left.
  std::optional<PoolKey> best_fitting(UnitId unit, const std::vector<PoolKey>& pools) {
    if (fits(unit, default_pool)) return default_pool;
    const UnitId before = heap_[unit].before;
    if (before != UnitId::none && fits(unit, pools[number(before)])) return pools[number(before)];
    for (std::size_t j = number(unit); j-- > 0;)
      if (fits(unit, pools[j])) return pools[j];
    for (const auto& [pool, unused] : members_)
      if (fits(unit, pool)) return pool;
    return std::nullopt;
  }

  bool fits(UnitId unit, const PoolKey& pool) {
    ++work_;
    if (pool == default_pool && not_default_.contains(unit)) return false;
    const auto inside = members_.find(pool);
    if (inside == members_.end() || work_ > most_work) return true;
    if (const auto others = others_.find(unit); others != others_.end()) {
      work_ += others->second.size();
      for (const UnitId other : others->second)
        if (inside->second.contains(other)) return false;
    }
    if (pool == default_pool) return true;
    work_ += inside->second.size();
    // A pool gives memory back only when it is over: then it gets no more, and keeps nothing unused.
    const Span& own = spans_[number(unit)];
    return std::all_of(inside->second.begin(), inside->second.end(), [&](UnitId id) {
      const Span& other = spans_[number(id)];
      return own.last_needed() < other.released && other.last_needed() < own.released;
    });
  }

  const DeviceHistory& history_;
  const Places& places_;
  std::span<const ReleaseRun> runs_;
  RecordedHeap heap_;
  std::vector<UnitId> unit_of_;                // by entry
  std::map<UnitId, std::set<UnitId>> others_;  // of other pools
  std::set<UnitId> not_default_;
  std::vector<std::vector<UnitId>> releases_;  // that the program asked for
  std::map<UnitId, PoolKey> known_;
  std::vector<Span> spans_;  // by unit
  std::uint64_t work_ = 0;   // done so far
  std::map<PoolKey, std::set<UnitId>> members_;
};

/// Whether the releases of a history leave room for pools that are gone. Following a history takes as long as half of
/// reading it, which for a small one nobody notices.
bool may_hide_pools(const DeviceHistory& history, const Places& places, std::span<const ReleaseRun> runs) {
  constexpr std::size_t small_history = 500'000;
  if (history.entries.count() < small_history) return true;
  for (const Segment& segment : history.segments)
    if (segment.expandable || places[segment.place].pool.value_or(PoolKey{}) != PoolKey{}) return true;
  for (const ReleaseRun& run : runs) {
    if (!run.is_call) continue;
    if (!run.is_empty_cache) return true;
    // The default pool alone gives back by class, stream, size and address.
    const auto key = [&](std::size_t i) {
      const Entry& entry = history.entries[i];
      return std::tuple(Bytes{entry.size} == AllocatorRules::small_buffer, places[entry.place()].stream, entry.size,
                        entry.address);
    };
    for (std::size_t i = run.first; i < run.end; ++i)
      if (history.entries[i].action() == Action::segment_unmap || (i > run.first && !(key(i - 1) < key(i))))
        return true;
  }
  return false;
}

}  // namespace

void find_destroyed_pools(DeviceHistory& history, Places& places, const AllocatorRules& rules,
                          std::span<const ReleaseRun> runs) {
  if (!may_hide_pools(history, places, runs)) return;
  PoolFinder finder(history, places, rules, runs);
  const std::vector<PoolKey> pools = finder.find();
  if (std::all_of(pools.begin(), pools.end(), [](const PoolKey& pool) { return pool == PoolKey{}; })) return;
  std::map<std::uint64_t, PoolKey> pool_of_live;  // by address: frees that are not completed name no unit
  for (std::size_t i = 0; i < history.entries.count(); ++i) {
    Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (!has_address(action)) continue;
    const UnitId unit = finder.units()[i];
    if (action == Action::alloc && unit != UnitId::none)
      pool_of_live[entry.address] = pools[static_cast<std::size_t>(unit)];
    Place place = places[entry.place()];
    if (unit != UnitId::none)
      place.pool = pools[static_cast<std::size_t>(unit)];
    else if (const auto live = pool_of_live.find(entry.address); live != pool_of_live.end())
      place.pool = live->second;
    entry.set(action, places.id(place));
  }
}

std::vector<PoolEnd> find_pool_ends(const DeviceHistory& history, const Places& places,
                                    std::span<const ReleaseRun> runs) {
  std::vector<PoolEnd> ends;
  std::set<PoolKey> over;
  for (const ReleaseRun& run : runs) {
    std::vector<PoolEnd> here;
    std::set<PoolKey> pools;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const PlaceId place = history.entries[i].place();
      const PoolKey pool = places[place].pool.value_or(PoolKey{});
      if (pools.insert(pool).second && pool != PoolKey{}) here.push_back({.entry = run.first, .place = place});
    }
    const bool alone = run.is_call && !run.is_empty_cache && pools.size() == 1 && here.size() == 1;
    const auto is_new = [&](const PoolEnd& end) { return over.insert(*places[end.place].pool).second; };
    const auto any_new = std::count_if(here.begin(), here.end(), is_new) > 0;
    if (!any_new && !alone && here.size() < 2) continue;
    for (PoolEnd& end : here) end.alone = alone;
    ends.insert(ends.end(), here.begin(), here.end());
  }
  return ends;
}

}  // namespace memreel::torch
