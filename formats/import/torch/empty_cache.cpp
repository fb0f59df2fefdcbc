#include "formats/import/torch/empty_cache.h"

#include <algorithm>
#include <optional>

namespace memreel::torch {
namespace {

/// Consecutive releases with one stack, and the malloc that they may be part of.
struct Run {
  std::size_t first = 0;
  std::size_t end = 0;
  Bytes released;
  Bytes acquired;              // by the segments that follow
  std::optional<Entry> next;   // the entry that follows the run
  std::optional<Entry> alloc;  // the alloc that follows the segments
};

class EmptyCacheFinder {
 public:
  EmptyCacheFinder(const DeviceHistory& history, const Places& places, const AllocatorRules& rules,
                   const Tables& tables)
      : entries_(history.entries), places_(places), rules_(rules), tables_(tables) {}

  std::vector<ReleaseRun> find(Bytes reserved) {
    scan(reserved);
    std::vector<ReleaseRun> found;
    std::size_t covered = 0;  // by runs
    Bytes held = reserved;
    for (const std::size_t i : segment_entries_) {
      if (i < covered) continue;
      if (acquires_segment(entries_[i].action())) {
        held += Bytes{entries_[i].size};
        continue;
      }
      const Run run = run_at(i);
      const bool named = is_named(run);
      found.push_back({.first = i, .end = run.end, .is_call = named || is_call(run, held), .is_empty_cache = named});
      held -= std::min(run.released, held);
      covered = run.end;
    }
    return found;
  }

 private:
  /// Finds the entries that change what the device holds, and the most that it held.
  void scan(Bytes reserved) {
    peak_ = reserved;
    for (std::size_t i = 0; i < entries_.count(); ++i) {
      const Entry& entry = entries_[i];
      if (acquires_segment(entry.action()))
        reserved += Bytes{entry.size};
      else if (releases_segment(entry.action()))
        reserved -= std::min(Bytes{entry.size}, reserved);
      else
        continue;
      segment_entries_.push_back(i);
      peak_ = std::max(peak_, reserved);
    }
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
    if (continues(i, [](Action action) { return action == Action::alloc; })) run.alloc = entries_[i];
    return run;
  }

  bool is_named(const Run& run) const {
    return tables_[tables_[tables_[entries_[run.first].stack].frame].function] == "empty_cache";
  }

  bool is_call(const Run& run, Bytes reserved_before) const {
    const Entry& first = entries_[run.first];
    if (!run.next || run.next->stack != first.stack) return true;
    if (run.next->action() == Action::oom) return false;
    if (!acquires_segment(run.next->action())) return true;
    if (run.alloc && could_have_served(run)) return true;
    const Bytes wanted = run.alloc ? rules_.segment_size(rules_.rounded({run.alloc->size})) : Bytes{};
    const bool fitted = reserved_before + std::max(wanted, run.acquired) <= peak_;
    return fitted && !could_be_garbage_collection(run, reserved_before);
  }

  bool could_have_served(const Run& run) const {
    for (std::size_t i = run.first; i < run.end; ++i)
      if (entries_[i].place() == run.alloc->place() && serves(entries_[i], rules_.rounded({run.alloc->size})))
        return true;
    return false;
  }

  /// Whether the free block that was released would have been handed out for a request of its place.
  bool serves(const Entry& released, Bytes request) const {
    const Bytes size{released.size};
    const bool mapped = released.action() == Action::segment_unmap;
    const bool small = size == AllocatorRules::small_buffer;
    if (AllocatorRules::is_small(request)) return !mapped && small;
    if (size < request || small) return false;
    // Ten small pages that were unmapped together look like one large one less often than not, so this errs rarely.
    if (mapped && size.count % rules_.large_buffer.count != 0) return false;
    return rules_.may_serve(size, request);
  }

  /// It frees segments of the default pool's large blocks once a share of the memory limit is in use. The limit is not
  /// recorded; it can't be less than the peak.
  bool could_be_garbage_collection(const Run& run, Bytes reserved_before) const {
    const double threshold = rules_.garbage_collection_threshold;
    if (threshold <= 0 || static_cast<double>(reserved_before.count) <= threshold * static_cast<double>(peak_.count))
      return false;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const Entry& entry = entries_[i];
      const bool in_default_pool = places_[entry.place()].pool.value_or(PoolKey{}) == PoolKey{};
      if (entry.action() != Action::segment_free || Bytes{entry.size} == AllocatorRules::small_buffer ||
          !in_default_pool)
        return false;
    }
    return true;
  }

  const Entries& entries_;
  const Places& places_;
  const AllocatorRules& rules_;
  const Tables& tables_;
  std::vector<std::size_t> segment_entries_;
  Bytes peak_;
};

}  // namespace

std::vector<ReleaseRun> find_releases(const DeviceHistory& history, std::uint64_t reserved, const Places& places,
                                      const AllocatorRules& rules, const Tables& tables) {
  return EmptyCacheFinder(history, places, rules, tables).find({reserved});
}

}  // namespace memreel::torch
