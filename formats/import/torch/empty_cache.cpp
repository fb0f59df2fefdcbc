// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/empty_cache.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "formats/import/torch/pools.h"
#include "formats/import/torch/recorded_heap.h"
#include "formats/model/units.h"

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

namespace {

/// Consecutive releases with one stack, and the malloc they may be part of.
struct Run {
  std::size_t first = 0;
  std::size_t end = 0;
  TotalBytes released;
  TotalBytes acquired;         // by the segments that follow
  std::size_t after = 0;       // the entry after these segments
  std::optional<Entry> next;   // the entry that follows the run
  std::optional<Entry> alloc;  // the alloc that follows the segments
};

/// For each pair, the first one that is the same: entries may state no pool where all are the default one.
std::vector<std::uint64_t> keys_of(const PoolStreams& pool_streams) {
  std::map<std::pair<std::uint64_t, PoolKey>, std::uint64_t> first;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < pool_streams.count(); ++i) {
    const PoolStream& pool_stream = pool_streams[static_cast<PoolStreamId>(i)];
    keys.push_back(first.try_emplace({pool_stream.stream, pool_stream.pool.value_or(PoolKey{})}, i).first->second);
  }
  return keys;
}

class EmptyCacheFinder {
 public:
  EmptyCacheFinder(const DeviceHistory& history, const PreexistingMemory& before, const PoolStreams& pool_streams,
                   const TorchSettings& rules, const Tables& tables)
      : entries_(history.entries),
        states_pools_(history.states_pools),
        before_(before),
        pool_streams_(pool_streams),
        rules_(rules),
        tables_(tables),
        keys_(keys_of(pool_streams)),
        heap_(initial_heap()) {}

  std::vector<ReleaseRun> find() {
    TotalBytes preexisting;
    for (const PreexistingSegment& segment : before_.segments) preexisting += segment.size;
    const Bytes reserved = preexisting.bytes();
    // The unmapped part may be smaller than its block. If that decides whether the block is too large to serve a
    // request, the history is followed from its beginning.
    is_whole_ = before_.segments.empty() || before_.divided;
    follows_ = rules_.expandable && rules_.max_split_size < TorchSettings::unlimited && is_whole_;
    scan(TotalBytes(reserved));
    collects_ = rules_.garbage_collection_threshold > 0 && (!is_whole_ || could_collect(reserved));
    std::vector<ReleaseRun> found;
    std::size_t covered = 0;  // by runs
    TotalBytes held(reserved);
    for (const std::size_t i : entries_.of_segments()) {
      if (i < covered) continue;
      if (acquires_segment(entries_[i].action())) {
        held += Bytes{entries_[i].size};
        continue;
      }
      const Run run = run_at(i);
      const bool named = is_named(run);
      found.push_back(
          {.first = i, .end = run.end, .is_call = named || is_call(run, held.bytes()), .is_empty_cache = named});
      held -= run.released.bytes();
      covered = run.end;
    }
    return found;
  }

 private:
  /// Finds a lower bound of the device's limit.
  void scan(TotalBytes reserved) {
    allowed_ = reserved.bytes();
    std::size_t covered = 0;  // by mallocs
    for (const std::size_t i : entries_.of_segments()) {
      const Entry& entry = entries_[i];
      if (acquires_segment(entry.action())) {
        if (i >= covered) {
          const Run malloc = run_at(i);
          allowed_ = std::max(allowed_, (reserved + wanted(malloc)).bytes());
          covered = malloc.after;
        }
        reserved += Bytes{entry.size};
      } else {
        reserved -= Bytes{entry.size};
      }
    }
  }

  /// What a malloc requested from the device. If it maps memory, it may get more, or less, than it had to request.
  Bytes wanted(const Run& run) const {
    return run.alloc ? rules_.segment_size(rules_.round({run.alloc->size})) : run.acquired.bytes();
  }

  Run run_at(std::size_t first) const {
    Run run{.first = first, .end = first};
    const StackId stack = entries_[first].stack;
    const auto continues = [&](std::size_t i, bool (*kind)(Action)) {
      return i < entries_.count() && kind(entries_[i].action()) && entries_[i].stack == stack;
    };
    for (; continues(run.end, releases_segment); ++run.end) run.released += Bytes{entries_[run.end].size};
    std::size_t i = run.end;
    while (i < entries_.count() && entries_[i].action() == Action::mark) ++i;
    if (i < entries_.count()) run.next = entries_[i];
    for (; continues(i, acquires_segment); ++i) run.acquired += Bytes{entries_[i].size};
    run.after = i;
    if (continues(i, [](Action action) { return action == Action::alloc; })) run.alloc = entries_[i];
    return run;
  }

  bool is_named(const Run& run) const {
    return tables_[tables_[tables_[entries_[run.first].stack].frame].function] == "empty_cache";
  }

  bool is_call(const Run& run, Bytes reserved_before) {
    const Entry& first = entries_[run.first];
    if (!run.next || run.next->stack != first.stack) return true;
    if (run.next->action() == Action::oom) return false;
    // With expandable segments, a block that was too large to serve a request may be small enough after its release.
    const bool gets_something = acquires_segment(run.next->action()) || (follows_ && run.alloc);
    if (!gets_something) return true;
    if (run.alloc && could_have_served(run)) return true;
    if (passes_over_default_pool(run) || exceeds_private_malloc(run)) return true;
    const bool fitted = (TotalBytes(reserved_before) + wanted(run)).bytes() <= allowed_;
    return fitted && !(collects_ && could_be_garbage_collection(run, reserved_before));
  }

  /// Whether garbage collection happened at all: it requires a limit, which is not recorded, but shows when a request
  /// fails. An emptied cache leaves nothing unused in the default pool, while collection leaves recently used blocks.
  /// So a single run of releases that does is also enough; without any, all runs are read as calls, which leave the
  /// same state.
  bool could_collect(Bytes reserved) const {
    RecordedHeap heap = heap_;
    TotalBytes held(reserved);
    for (std::size_t i = 0; i < entries_.count(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.action() == Action::oom) return true;
      if (!releases_segment(entry.action())) {
        if (acquires_segment(entry.action())) held += Bytes{entry.size};
        follow(heap, entry);
        continue;
      }
      const Run run = run_at(i);
      const Bytes reserved_before = held.bytes();
      for (; i < run.end; ++i) {
        follow(heap, entries_[i]);
        held -= Bytes{entries_[i].size};
      }
      --i;
      const bool in_malloc = run.next && run.next->stack == entries_[run.first].stack &&
                             acquires_segment(run.next->action()) && !is_named(run);
      if (in_malloc && could_be_garbage_collection(run, reserved_before) && leaves_unused(heap)) return true;
    }
    return false;
  }

  bool leaves_unused(const RecordedHeap& heap) const {
    return heap.any_unused([&](std::uint64_t stream) { return is_default(static_cast<PoolStreamId>(stream)); });
  }

  /// Whether the default pool had something to release, but another pool's memory was released first.
  bool passes_over_default_pool(const Run& run) {
    if (is_default(entries_[run.first].pool_stream())) return false;
    for (std::size_t i = run.first; i < run.end; ++i)
      if (is_default(entries_[i].pool_stream())) return true;
    if (!states_pools_ || !is_whole_) return false;
    follow_to(run.first);
    return leaves_unused(heap_);
  }

  /// Whether the segment that follows is a private pool's, whose malloc releases no cached memory but by collecting
  /// garbage: whole segments of the default pool's larger class.
  bool exceeds_private_malloc(const Run& run) const {
    if (!states_pools_ || is_default(run.next->pool_stream())) return false;
    if (rules_.max_split_size < TorchSettings::unlimited) return false;  // it releases oversize blocks of its own
    for (std::size_t i = run.first; i < run.end; ++i) {
      const Entry& entry = entries_[i];
      const bool collectable = is_default(entry.pool_stream()) && entry.action() == Action::segment_free &&
                               Bytes{entry.size} > TorchSettings::small_segment;
      if (!collectable) return true;
    }
    return !collects_;
  }

  bool is_default(PoolStreamId pool_stream) const {
    return pool_streams_[pool_stream].pool.value_or(PoolKey{}) == PoolKey{};
  }

  bool could_have_served(const Run& run) {
    if (follows_) {
      follow_to(run.first);
      return heap_.would_serve(key_of(*run.alloc), rules_.round({run.alloc->size}));
    }
    for (std::size_t i = run.first; i < run.end; ++i)
      if (entries_[i].pool_stream() == run.alloc->pool_stream() && serves(entries_[i], rules_.round({run.alloc->size})))
        return true;
    return false;
  }

  void follow_to(std::size_t entry) {
    for (; followed_ < entry; ++followed_) follow(heap_, entries_[followed_]);
  }

  RecordedHeap initial_heap() const {
    RecordedHeap heap(rules_);
    if (before_.divided) heap.begin(before_.segments, [&](PoolStreamId id) { return key_of(id); });
    return heap;
  }

  std::uint64_t key_of(PoolStreamId id) const { return keys_[static_cast<std::size_t>(id)]; }
  std::uint64_t key_of(const Entry& entry) const { return key_of(entry.pool_stream()); }

  void follow(RecordedHeap& heap, const Entry& entry) const {
    switch (entry.action()) {
      case Action::segment_alloc:
      case Action::segment_map:
        heap.acquire(entry, key_of(entry));
        break;
      case Action::segment_free:
      case Action::segment_unmap:
        heap.release(entry);
        break;
      case Action::alloc:
        if (const auto placement = heap.placement(entry)) heap.take(*placement);
        break;
      case Action::free_completed:
        heap.complete(entry);
        break;
      default:
        break;
    }
  }

  /// Whether the released free block would have served a request of its pool and stream.
  bool serves(const Entry& released, Bytes request) const {
    const Bytes size{released.size};
    const bool mapped = released.action() == Action::segment_unmap;
    const bool small = size == TorchSettings::small_segment;
    if (TorchSettings::is_small(request)) return !mapped && small;
    if (size < request || small) return false;
    // Ten small pages unmapped together rarely look like one large one, so this seldom errs.
    if (mapped && size.count % rules_.large_segment.count != 0) return false;
    return rules_.may_serve(size, request);
  }

  /// Collection frees segments of the default pool's large blocks once a share of the memory limit is in use. The limit
  /// is not recorded.
  bool could_be_garbage_collection(const Run& run, Bytes reserved_before) const {
    const double threshold = rules_.garbage_collection_threshold;
    if (threshold <= 0 || static_cast<double>(reserved_before.count) <= threshold * static_cast<double>(allowed_.count))
      return false;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const Entry& entry = entries_[i];
      if (entry.action() != Action::segment_free || Bytes{entry.size} == TorchSettings::small_segment ||
          !is_default(entry.pool_stream()))
        return false;
    }
    return true;
  }

  const Entries& entries_;
  bool states_pools_;
  const PreexistingMemory& before_;
  const PoolStreams& pool_streams_;
  const TorchSettings& rules_;
  const Tables& tables_;
  std::vector<std::uint64_t> keys_;  // by PoolStreamId: what tells users of memory apart
  Bytes allowed_;
  RecordedHeap heap_;  // before entry `followed_`
  std::size_t followed_ = 0;
  bool is_whole_ = false;  // the history begins with nothing held
  bool follows_ = false;
  bool collects_ = false;  // collects garbage, as far as can be determined
};

/// Whether `run` begins where a call on another device ends, with nothing in between on either.
bool goes_on(const DeviceReleases& device, const ReleaseRun& run, const DeviceReleases& other) {
  const Entries &own = device.history->entries, &others = other.history->entries;
  const std::int64_t begin = own[run.first].time_us;
  if (begin == no_time || run.first == 0) return false;
  const auto first_time = [&](const ReleaseRun& one) { return others[one.first].time_us; };
  const auto later = std::ranges::upper_bound(*other.runs, begin, {}, first_time);
  if (later == other.runs->begin()) return false;
  const ReleaseRun& call = *std::prev(later);
  return call.is_call && own[run.first - 1].time_us <= first_time(call) && others[call.end - 1].time_us <= begin &&
         (call.end == others.count() || others[call.end].time_us >= own[run.end - 1].time_us);
}

}  // namespace

std::vector<ReleaseRun> find_releases(const DeviceHistory& history, const PreexistingMemory& before,
                                      const PoolStreams& pool_streams, const TorchSettings& rules,
                                      const Tables& tables) {
  return EmptyCacheFinder(history, before, pool_streams, rules, tables).find();
}

void join_calls(std::span<const DeviceReleases> devices) {
  for (const DeviceReleases& device : devices)
    for (ReleaseRun& run : *device.runs)
      run.is_call = run.is_call || std::ranges::any_of(devices, [&](const DeviceReleases& other) {
                      return other.history != device.history && goes_on(device, run, other);
                    });
}

}  // namespace memreel::torch
