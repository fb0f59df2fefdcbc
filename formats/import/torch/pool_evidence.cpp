#include "formats/import/torch/pool_evidence.h"

#include <algorithm>
#include <map>
#include <set>

namespace memreel::torch {
namespace {

/// Maximum number of better blocks considered per placement: more are rare and add nothing.
constexpr int most_evidence = 64;
/// What noting that two units differ costs, in steps: memory rather than time.
constexpr std::uint64_t cost_of_a_pair = 32;

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
    heap_.for_each_better(*placement, [&](const FreeBlock& better) {
      differ(unit, better.unit);
      return ++evidence < most_evidence;
    });
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

}  // namespace memreel::torch
