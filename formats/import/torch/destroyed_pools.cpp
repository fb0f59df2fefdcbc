#include "formats/import/torch/destroyed_pools.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "formats/import/torch/pool_evidence.h"

namespace memreel::torch {
namespace {

/// Whether the releases in a history are consistent with destroyed pools. Following a history takes half as long as
/// reading it, which for a small one is negligible.
bool may_hide_pools(const DeviceHistory& history, const PoolStreams& pool_streams, std::span<const ReleaseRun> runs) {
  constexpr std::size_t small_history = 500'000;
  if (history.entries.count() < small_history) return true;
  for (const Segment& segment : history.segments)
    if (segment.expandable || pool_streams[segment.pool_stream].pool.value_or(PoolKey{}) != PoolKey{}) return true;
  for (const ReleaseRun& run : runs) {
    if (!run.is_call) continue;
    if (!run.is_empty_cache) return true;
    // The default pool alone releases in order of class, stream, size and address.
    const auto key = [&](std::size_t i) {
      const Entry& entry = history.entries[i];
      return std::tuple(Bytes{entry.size} == TorchSettings::small_segment, pool_streams[entry.pool_stream()].stream,
                        entry.size, entry.address);
    };
    for (std::size_t i = run.first; i < run.end; ++i)
      if (history.entries[i].action() == Action::segment_unmap || (i > run.first && !(key(i - 1) < key(i))))
        return true;
  }
  return false;
}

/// Emptying the cache begins with the default pool. What other pools released before it, with the same stack or none,
/// they released at their end.
std::vector<ReleaseRun> split_before_default_pool(const DeviceHistory& history, const PoolStreams& pool_streams,
                                                  std::span<const ReleaseRun> runs) {
  std::vector<ReleaseRun> split;
  for (const ReleaseRun& run : runs) {
    std::size_t first = run.first;
    const auto is_default = [&](std::size_t i) {
      return pool_streams[history.entries[i].pool_stream()].pool.value_or(PoolKey{}) == PoolKey{};
    };
    while (first < run.end && !is_default(first)) ++first;
    const bool is_two = run.is_call && first > run.first && first < run.end;
    if (is_two) split.push_back({.first = run.first, .end = first, .is_call = true});
    split.push_back(run);
    if (is_two) split.back().first = first;
  }
  return split;
}

}  // namespace

void find_destroyed_pools(DeviceHistory& history, PreexistingMemory& initial, PoolStreams& pool_streams,
                          const TorchSettings& rules, std::span<const ReleaseRun> runs, Effort& effort) {
  if (effort.spent() || !may_hide_pools(history, pool_streams, runs)) return;
  const std::optional<PoolEvidence> evidence =
      find_pool_evidence(history, initial.segments, pool_streams, rules, runs, effort);
  if (!evidence) return;
  const std::optional<std::vector<PoolKey>> chosen = choose_pools(*evidence, effort);
  if (!chosen) return;
  const std::vector<PoolKey>& pools = *chosen;
  std::map<std::uint64_t, PoolKey> pool_of_live;  // by address: frees that are not completed have no unit
  const auto move = [&](PoolStreamId& id, PoolKey pool) {
    id = pool_streams.id({.stream = pool_streams[id].stream, .pool = pool});
  };
  auto allocation = initial.allocations.begin();
  for (std::size_t i = 0; i < initial.segments.size(); ++i) {
    PreexistingSegment& segment = initial.segments[i];
    const PoolKey pool = pools[static_cast<std::size_t>(evidence->initial_unit[i])];
    move(segment.pool_stream, pool);
    for (; allocation != initial.allocations.end() && allocation->block.address < segment.address + segment.size;
         ++allocation) {
      move(allocation->pool_stream, pool);
      pool_of_live[allocation->block.address.value] = pool;
    }
  }
  for (std::size_t i = 0; i < history.entries.count(); ++i) {
    Entry& entry = history.entries[i];
    const Action action = entry.action();
    if (!has_address(action)) continue;
    const UnitId unit = evidence->unit_of[i];
    if (action == Action::alloc && unit != UnitId::none)
      pool_of_live[entry.address] = pools[static_cast<std::size_t>(unit)];
    PoolStream pool_stream = pool_streams[entry.pool_stream()];
    if (unit != UnitId::none)
      pool_stream.pool = pools[static_cast<std::size_t>(unit)];
    else if (const auto live = pool_of_live.find(entry.address); live != pool_of_live.end())
      pool_stream.pool = live->second;
    entry.set(action, pool_streams.id(pool_stream));
  }
}

std::vector<ReleaseCall> find_release_calls(const DeviceHistory& history, const PoolStreams& pool_streams,
                                            std::span<const ReleaseRun> runs) {
  std::vector<ReleaseCall> calls;
  std::set<PoolKey> over;
  for (const ReleaseRun& run : split_before_default_pool(history, pool_streams, runs)) {
    std::vector<ReleaseCall> ends;  // where each pool's turn begins
    std::set<PoolKey> pools;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const PoolStreamId pool_stream = history.entries[i].pool_stream();
      const PoolKey pool = pool_streams[pool_stream].pool.value_or(PoolKey{});
      if (pools.insert(pool).second && pool != PoolKey{})
        ends.push_back({.entry = i, .kind = EventKind::pool_end, .pool_stream = pool_stream});
    }
    if (run.is_call && !run.is_empty_cache && !pools.contains(PoolKey{})) {
      for (const ReleaseCall& end : ends) {
        over.insert(*pool_streams[*end.pool_stream].pool);
        calls.push_back(end);
        calls.push_back({.entry = end.entry, .kind = EventKind::empty_cache, .pool_stream = end.pool_stream});
      }
      continue;
    }
    const auto is_new = [&](const ReleaseCall& end) {
      return over.insert(*pool_streams[*end.pool_stream].pool).second;
    };
    const bool any_new = std::count_if(ends.begin(), ends.end(), is_new) > 0;
    for (ReleaseCall& end : ends) {
      end.entry = run.first;
      if (any_new || ends.size() > 1) calls.push_back(end);
    }
    if (run.is_call) calls.push_back({.entry = run.first, .kind = EventKind::empty_cache, .pool_stream = {}});
  }
  return calls;
}

}  // namespace memreel::torch
