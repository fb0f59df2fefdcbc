#include "formats/import/torch/empty_cache.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>

namespace memreel::torch {
namespace {

// Names as in c10/cuda/CUDACachingAllocator.cpp.
constexpr Bytes min_block_size = 512_B;
constexpr Bytes small_size = 1_MiB;    // requests up to this go to the small pool
constexpr Bytes small_buffer = 2_MiB;  // the size of all its segments, and of no segment of the large pool
constexpr Bytes large_buffer = 20_MiB;
constexpr Bytes min_large_alloc = 10_MiB;
constexpr Bytes round_large = 2_MiB;
constexpr Bytes max_non_split_rounding = 20_MiB;

/// Not less than what the allocator makes of a request.
Bytes rounded(Bytes request, const ReleaseSettings& settings) {
  constexpr Bytes largest{std::uint64_t{1} << 62U};
  const Bytes plain = round_up(std::clamp(request, min_block_size, largest), min_block_size);
  return settings.rounds_to_power_of_two ? Bytes{std::bit_ceil(plain.count)} : plain;
}

Bytes segment_size(Bytes request) {
  if (request <= small_size) return small_buffer;
  if (request < min_large_alloc) return large_buffer;
  return round_up(request, round_large);
}

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
  EmptyCacheFinder(const DeviceHistory& history, const Places& places, const ReleaseSettings& settings,
                   const Tables& tables)
      : entries_(history.entries), places_(places), settings_(settings), tables_(tables) {}

  std::vector<std::size_t> find(Bytes reserved) {
    scan(reserved);
    std::vector<std::size_t> found;
    std::size_t covered = 0;  // by runs
    Bytes held = reserved;
    for (const std::size_t i : segment_entries_) {
      if (i < covered) continue;
      if (acquires_segment(entries_[i].action())) {
        held += Bytes{entries_[i].size};
        continue;
      }
      const Run run = run_at(i);
      if (is_call(run, held)) found.push_back(i);
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

  bool is_call(const Run& run, Bytes reserved_before) const {
    const Entry& first = entries_[run.first];
    if (tables_[tables_[tables_[first.stack].frame].function] == "empty_cache") return true;
    if (!run.next || run.next->stack != first.stack) return true;
    if (run.next->action() == Action::oom) return false;
    if (!acquires_segment(run.next->action())) return true;
    if (run.alloc && could_have_served(run)) return true;
    const Bytes wanted = run.alloc ? segment_size(rounded({run.alloc->size}, settings_)) : Bytes{};
    const bool fitted = reserved_before + std::max(wanted, run.acquired) <= peak_;
    return fitted && !could_be_garbage_collection(run, reserved_before);
  }

  bool could_have_served(const Run& run) const {
    for (std::size_t i = run.first; i < run.end; ++i)
      if (entries_[i].place() == run.alloc->place() && serves(entries_[i], rounded({run.alloc->size}, settings_)))
        return true;
    return false;
  }

  /// Whether the free block that was released would have been handed out for a request of its place.
  bool serves(const Entry& released, Bytes request) const {
    const Bytes size{released.size};
    const bool mapped = released.action() == Action::segment_unmap;
    if (request <= small_size) return !mapped && size == small_buffer;
    if (size < request || size == small_buffer) return false;
    // Ten small pages that were unmapped together look like one large one less often than not, so this errs rarely.
    if (mapped && size.count % large_buffer.count != 0) return false;
    const Bytes oversize{settings_.max_split_size};
    if (oversize.count == 0) return true;
    return request < oversize ? size < oversize : size < request + max_non_split_rounding;
  }

  /// It frees segments of the default pool's large blocks once a share of the memory limit is in use. The limit is not
  /// recorded; it can't be less than the peak.
  bool could_be_garbage_collection(const Run& run, Bytes reserved_before) const {
    const double threshold = settings_.garbage_collection_threshold;
    if (threshold <= 0 || static_cast<double>(reserved_before.count) <= threshold * static_cast<double>(peak_.count))
      return false;
    for (std::size_t i = run.first; i < run.end; ++i) {
      const Entry& entry = entries_[i];
      const bool in_default_pool = places_[entry.place()].pool.value_or(PoolKey{}) == PoolKey{};
      if (entry.action() != Action::segment_free || Bytes{entry.size} == small_buffer || !in_default_pool) return false;
    }
    return true;
  }

  const Entries& entries_;
  const Places& places_;
  const ReleaseSettings& settings_;
  const Tables& tables_;
  std::vector<std::size_t> segment_entries_;
  Bytes peak_;
};

}  // namespace

ReleaseSettings ReleaseSettings::of(const Snapshot& snapshot) {
  ReleaseSettings settings;
  for (const auto& [key, value] : snapshot.settings) {
    if (key == "garbage_collection_threshold") {
      std::from_chars(value.data(), value.data() + value.size(), settings.garbage_collection_threshold);
    } else if (key == "max_split_size") {
      // -1 is unlimited and is left out: no number without a sign.
      std::from_chars(value.data(), value.data() + value.size(), settings.max_split_size);
    } else if (key == "roundup_power2_divisions") {
      // "[1:0,2:0,...]": a bucket with a division has a value that does not begin with 0.
      for (std::size_t at = value.find(':'); at != std::string::npos; at = value.find(':', at + 1))
        settings.rounds_to_power_of_two = settings.rounds_to_power_of_two || value.substr(at + 1, 1) != "0";
    }
  }
  return settings;
}

std::vector<std::size_t> find_empty_caches(const DeviceHistory& history, std::uint64_t reserved, const Places& places,
                                           const ReleaseSettings& settings, const Tables& tables) {
  return EmptyCacheFinder(history, places, settings, tables).find({reserved});
}

}  // namespace memreel::torch
