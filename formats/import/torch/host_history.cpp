// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/snapshot_to_trace.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>

#include "formats/import/torch/recorded_heap.h"

namespace memreel::torch {
namespace {

bool is_default(const PoolStreams& pool_streams, PoolStreamId pool_stream) {
  return pool_streams[pool_stream].pool.value_or(PoolKey{}) == PoolKey{};
}

/// Follows the allocator's cache through a history.
class HostCache {
 public:
  HostCache(const DeviceHistory& history, const PoolStreams& pool_streams, const TorchHostSettings& rules,
            bool is_whole)
      : history_(history),
        pool_streams_(pool_streams),
        rules_(rules),
        is_whole_(is_whole),
        registered_(history.entries.count()) {}

  void follow() {
    for (std::size_t i = 0; i < history_.entries.count(); ++i) {
      const Entry& entry = history_.entries[i];
      if (entry.action() != Action::segment_free) end_run();
      see(entry, i);
    }
    end_run();
  }

  bool is_registered(std::size_t entry) const { return registered_[entry]; }
  /// The first entry of each run of releases that is an empty_cache() call, with the pools destroyed by then.
  const std::map<std::size_t, std::set<PoolStreamId>>& calls() const { return calls_; }

 private:
  /// What is at an address, from its segment's allocation to its release.
  struct Life {
    std::vector<std::size_t> entries;
    Bytes size;
    PoolStreamId pool_stream{};
    bool registered = false;
    bool cached = false;
  };
  using Bucket = std::pair<PoolStreamId, int>;  // sizes up to a power of two

  static int bucket_of(Bytes size) { return static_cast<int>(std::bit_width(std::max(size, 1_B).count - 1)); }

  void see(const Entry& entry, std::size_t i) {
    Life& life = lives_[entry.address];
    if (entry.action() == Action::segment_alloc)
      life = {.size = {entry.size}, .pool_stream = entry.pool_stream(), .registered = is_registration(entry)};
    life.entries.push_back(i);
    registered_[i] = life.registered;
    if (life.registered) return;
    if (entry.action() == Action::alloc && life.cached) uncache(entry.address, life);
    if (entry.action() == Action::free_completed && Bytes{entry.size} <= rules_.cached) {
      life.cached = true;
      free_[{entry.pool_stream(), bucket_of({entry.size})}].insert({entry.size, entry.address});
      if (is_default(pool_streams_, entry.pool_stream())) ++cached_by_default_;
    }
    if (entry.action() == Action::segment_free && life.cached) {
      uncache(entry.address, life);
      run_.push_back(i);
    }
  }

  bool is_registration(const Entry& entry) const {
    if (rules_.round({entry.size}) != Bytes{entry.size}) return true;
    if (!is_whole_) return false;
    const auto found = free_.find({entry.pool_stream(), bucket_of({entry.size})});
    return found != free_.end() && found->second.lower_bound({entry.size, 0}) != found->second.end();
  }

  void uncache(std::uint64_t address, Life& life) {
    life.cached = false;
    free_[{life.pool_stream, bucket_of(life.size)}].erase({life.size.count, address});
    if (is_default(pool_streams_, life.pool_stream)) --cached_by_default_;
  }

  void end_run() {
    if (run_.empty()) return;
    if (is_whole_ && cached_by_default_ > 0) {
      for (const std::size_t i : run_) register_all(lives_[history_.entries[i].address]);
    } else {
      std::set<PoolStreamId>& over = calls_[run_.front()];
      for (const std::size_t i : run_)
        if (const PoolStreamId pool_stream = history_.entries[i].pool_stream(); !is_default(pool_streams_, pool_stream))
          over.insert(pool_stream);
    }
    run_.clear();
  }

  void register_all(const Life& life) {
    for (const std::size_t i : life.entries) registered_[i] = true;
  }

  const DeviceHistory& history_;
  const PoolStreams& pool_streams_;
  const TorchHostSettings& rules_;
  bool is_whole_;
  std::vector<bool> registered_;                                              // by entry
  std::unordered_map<std::uint64_t, Life> lives_;                             // by address
  std::map<Bucket, std::set<std::pair<std::uint64_t, std::uint64_t>>> free_;  // sizes and addresses
  std::uint64_t cached_by_default_ = 0;                                       // blocks of the default pool
  std::vector<std::size_t> run_;                                              // releases in a row
  std::map<std::size_t, std::set<PoolStreamId>> calls_;
};

/// The addresses of the reserve segment; empty if it is unused.
Range reserve_of(const DeviceHistory& history, const HostCache& cache, const TorchHostSettings& rules) {
  for (std::size_t i = 0; rules.reserve > 0_B && i < history.entries.count(); ++i) {
    const Entry& entry = history.entries[i];
    if (entry.action() == Action::segment_alloc && !cache.is_registered(i) &&
        round_up({entry.size}, TorchHostSettings::reserve_alignment) <= rules.reserve)
      return Range::of(entry.address, rules.reserve.count);
  }
  return {};
}

}  // namespace

HostHistory split_host_history(const DeviceHistory& history, const PoolStreams& pool_streams,
                               const TorchHostSettings& rules, bool is_whole) {
  HostCache cache(history, pool_streams, rules, is_whole);
  cache.follow();
  const Range reserve = is_whole ? reserve_of(history, cache, rules) : Range{};
  const auto in_reserve = [&](const Entry& entry) {
    return entry.address >= reserve.begin && entry.address < reserve.end;
  };
  HostHistory split;
  split.allocator.recorded = history.recorded;
  split.allocator.segments = history.segments;
  bool reserves = reserve.begin < reserve.end;
  for (std::size_t i = 0; i < history.entries.count(); ++i) {
    Entry entry = history.entries[i];
    const Action action = entry.action();
    const bool of_segment = acquires_segment(action) || releases_segment(action);
    if (cache.is_registered(i)) {
      if (!of_segment) split.registered.entries.push_back(entry);
      continue;
    }
    if (const auto call = cache.calls().find(i); call != cache.calls().end()) {
      const std::size_t at = split.allocator.entries.count();
      for (const PoolStreamId pool : call->second)
        split.releases.push_back({.entry = at, .kind = EventKind::pool_end, .pool_stream = pool});
      split.releases.push_back({.entry = at, .kind = EventKind::empty_cache, .pool_stream = std::nullopt});
    }
    if (std::exchange(reserves, reserves && action != Action::segment_alloc) && !reserves) {
      Entry whole = entry;
      whole.address = reserve.begin;
      whole.size = reserve.end - reserve.begin;
      split.allocator.entries.push_back(whole);
    }
    if (!(of_segment && in_reserve(entry))) split.allocator.entries.push_back(entry);
  }
  return split;
}

}  // namespace memreel::torch
