// SPDX-License-Identifier: Apache-2.0
// The replay loop: drives one policy with one heap's operations and measures it.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "formats/model/units.h"

namespace memreel {

// How usable the free memory inside a policy's segments is: metrics that need to scan every free block, and are
// therefore sampled, not computed after every operation.

/// Scans a policy's free blocks.
class FreeMetrics {
 public:
  /// At the points of the series.
  template <PlacingPolicy P>
  void sample(const P& policy) {
    std::array<Bytes, FreeMemory::sizes.size()> below{};
    Bytes free;
    policy.for_each_free([&](const FreeBlock& block) {
      free += block.size;
      for (std::size_t i = 0; i < below.size(); ++i)
        if (block.size < FreeMemory::sizes[i]) below[i] += block.size;
    });
    if (free.count == 0) return;
    for (std::size_t i = 0; i < below.size(); ++i)
      found_.unusable[i] =
          std::max(found_.unusable[i], static_cast<double>(below[i].count) / static_cast<double>(free.count));
  }

  /// Call when `policy` took more from the device than it ever held, or failed, for `requested` bytes in `pool_stream`:
  /// finds its free blocks that were large enough but belonged to others.
  template <PlacingPolicy P>
  void see_growth(const P& policy, const PoolStream& pool_stream, Bytes requested, std::uint32_t event) {
    Bytes other_stream, other_pool;
    policy.for_each_free([&](const FreeBlock& block) {
      if (block.size < requested) return;
      if (block.pool != pool_stream.pool)
        other_pool += block.size;
      else if (block.stream && *block.stream != pool_stream.stream)
        other_stream += block.size;
    });
    note(found_.stranded_stream, other_stream, event);
    note(found_.stranded_pool, other_pool, event);
  }

  /// Whether see_growth() could raise its maximum: it scans every block, and a program can grow at every request.
  bool could_grow(Bytes free) const {
    return free > std::min(found_.stranded_stream.bytes, found_.stranded_pool.bytes);
  }

  const FreeMemory& found() const { return found_; }

 private:
  static void note(StrandedMemory& most, Bytes now, std::uint32_t event) {
    if (now > most.bytes) most = {.bytes = now, .event = event};
  }

  FreeMemory found_;
};

// Whether a program gets the same addresses in every step, which CUDA graphs, registered buffers and caches keyed by
// address rely on.

/// Compares the n-th allocation of a size in a step with the n-th of that size in the previous step. Only whole steps
/// count: what precedes the first end of a step is the program's start.
class AddressStability {
 public:
  /// `step_ends`: Prepared::step_ends, which must outlive this object.
  explicit AddressStability(std::span<const std::uint32_t> step_ends) : step_ends_(step_ends) {}

  /// Call in row order.
  void served(std::size_t row, Bytes requested, Address address) {
    while (next_ < step_ends_.size() && step_ends_[next_] <= row) end_step();
    if (next_ == 0 || next_ == step_ends_.size()) return;
    std::vector<Address>& now = now_[requested.count];
    if (next_ > 1) {
      ++compared_;
      const auto before = before_.find(requested.count);
      if (before != before_.end() && now.size() < before->second.size() && before->second[now.size()] == address)
        ++same_;
    }
    now.push_back(address);
  }

  /// The share over all whole steps except the first; none if there is nothing to compare.
  std::optional<double> share() const {
    if (compared_ == 0) return std::nullopt;
    return static_cast<double>(same_) / static_cast<double>(compared_);
  }

 private:
  void end_step() {
    ++next_;
    std::swap(before_, now_);
    now_.clear();
  }

  std::span<const std::uint32_t> step_ends_;
  std::size_t next_ = 0;                                                  // the next step end
  std::unordered_map<std::uint64_t, std::vector<Address>> before_, now_;  // addresses by size, in order
  std::uint64_t compared_ = 0, same_ = 0;
};

/// A maximum and where it was reached: a row while rows are run, an event of the trace in the result.
struct Peak {
  Bytes value;
  std::size_t at = 0;

  bool see(Bytes now, std::size_t where) {
    if (now <= value) return false;
    value = now;
    at = where;
    return true;
  }
};

/// Measurements over a run of operations.
struct Measures {
  Peak live, allocated, reserved;
  Bytes live_at_reserved_peak, allocated_at_reserved_peak;
  double external_fragmentation = 0;  // maximum

  /// Over a plateau, the peak is the instant with most live bytes. Returns true if reserved memory grew to it.
  bool see_reserved(const HeapUse& use, Bytes live_now, std::size_t row) {
    if (use.reserved < reserved.value || (use.reserved == reserved.value && live_now <= live_at_reserved_peak))
      return false;
    const bool grew = use.reserved > reserved.value;
    reserved = {use.reserved, row};
    allocated_at_reserved_peak = use.allocated;
    live_at_reserved_peak = live_now;
    return grew;
  }

  template <Policy P>
  void see_free(const P& policy) {
    const Bytes free = policy.use().free;
    if (free.count == 0) return;
    // From signed numbers, for which processors have an instruction.
    const auto total = static_cast<double>(static_cast<std::int64_t>(free.count));
    const auto outside = static_cast<double>(static_cast<std::int64_t>((free - policy.largest_free()).count));
    if (outside > external_fragmentation * total) external_fragmentation = outside / total;
  }

  /// Merges the maxima of `later`, the measures of the rows that follow. `events`: those of these rows.
  void fold(const Measures& later, std::span<const std::uint32_t> events);
};

/// Failed requests, by slot: their frees are ignored.
class FailedSlots {
 public:
  explicit FailedSlots(std::uint32_t slot_count) : failed_(slot_count) {}

  void add(std::uint32_t slot) {
    failed_[slot] = true;
    ++count_;
  }
  void remove(std::uint32_t slot) {
    failed_[slot] = false;
    --count_;
  }
  bool empty() const { return count_ == 0; }
  bool contains(std::uint32_t slot) const { return count_ > 0 && failed_[slot]; }

 private:
  std::vector<bool> failed_;
  std::size_t count_ = 0;
};

/// One run of `policy`, which must be new, over `heap`.
template <Policy P>
class Replay {
 public:
  Replay(const Prepared& heap, P& policy, const RunOptions& options)
      : heap_(heap), policy_(policy), options_(options), failed_(heap.slot_count), addresses_(heap.step_ends) {}

  ReplayResult run() {
    const auto start = std::chrono::steady_clock::now();
    row_count_ = options_.rows != nullptr ? options_.rows->row_count(heap_.heap) : heap_.count();
    stretch_count_ = std::clamp<std::size_t>(options_.series_points, 1, std::max<std::size_t>(row_count_, 1));
    resume();
    if (options_.rows != nullptr)
      options_.rows->for_each_piece(heap_.heap, [&](const Prepared& piece) {
        run_piece(piece);
        return !stopped_;
      });
    else
      run_piece(heap_);
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    finish();
    return std::move(result_);
  }

 private:
  /// How many rows ahead memory is prefetched: the row's block id, the block, the block's neighbours.
  static constexpr std::size_t name_ahead = 24, block_ahead = 16, neighbours_ahead = 8;

  /// How often all free blocks are scanned. More often would cost more than the replay.
  static constexpr std::size_t most_samples = 128;

  /// How many rows are run between looks at the clock. Policies take up to some milliseconds for one.
  static constexpr std::size_t rows_between_looks = 256;

  bool is_late() const {
    using Clock = std::chrono::steady_clock;
    return options_.deadline != Clock::time_point::max() && Clock::now() > options_.deadline;
  }

  void foresee(std::size_t row) {
    if constexpr (BlockwisePolicy<P>) {
      const std::vector<BlockId>& ids = policy_.block_ids();
      const auto slot = [&](std::size_t ahead) { return piece_->slot[std::min(row + ahead, piece_->count() - 1)]; };
      prefetch(&ids[slot(name_ahead)]);
      policy_.blocks().prefetch_block(ids[slot(block_ahead)]);
      policy_.blocks().prefetch_neighbours(ids[slot(neighbours_ahead)]);
    }
  }

  /// Begins with what the policy already holds.
  void resume() {
    if constexpr (ResumingPolicy<P>) {
      if (!heap_.initial || !policy_.resume(*heap_.initial)) return;
      rows_held_ = heap_.initial->rows;
      const HeapUse& use = policy_.use();
      const std::uint32_t event = heap_.initial->last_event;
      result_.resumed = true;
      live_ = heap_.initial->live;
      all_ = {.live = {live_, event},
              .allocated = {use.allocated, event},
              .reserved = {use.reserved, event},
              .live_at_reserved_peak = live_,
              .allocated_at_reserved_peak = use.allocated};
    }
  }

  std::size_t end_of_stretch() const { return row_count_ * (stretch_ + 1) / stretch_count_; }

  void run_piece(const Prepared& piece) {
    piece_ = &piece;
    const std::size_t end = rows_done_ + piece.count();
    while (rows_done_ < end && !stopped_) {
      const std::size_t until = std::min(end, end_of_stretch());
      const std::size_t begin = piece.count() - (end - rows_done_);
      run_stretch(begin, begin + (until - rows_done_));
      rows_done_ = until;
      if (until == end_of_stretch()) end_stretch();
    }
  }

  void end_stretch() {
    ++stretch_;
    if constexpr (PlacingPolicy<P>)
      if (options_.placement_metrics &&
          stretch_ * most_samples / stretch_count_ > (stretch_ - 1) * most_samples / stretch_count_)
        free_.sample(policy_);
  }

  /// Runs rows of the piece that all lie in one stretch of the series.
  void run_stretch(std::size_t begin, std::size_t end) {
    const HeapUse& use = policy_.use();
    Measures measures{.live = {live_, begin}, .allocated = {use.allocated, begin}, .reserved = {use.reserved, begin}};
    const std::uint32_t event = piece_->event[begin];
    if (rows_done_ < rows_held_) begin = skip_held(begin, end);
    if (follows_addresses())
      run_and_follow(begin, end, measures);
    else if (!done_at_once(begin, end, measures))
      run_rows(begin, end, measures);
    all_.fold(measures, piece_->event);
    if (options_.series_points > 0) add_to_series(measures, event);
  }

  /// Returns the first row of the stretch for which the policy does not yet hold memory.
  std::size_t skip_held(std::size_t begin, std::size_t end) {
    const std::size_t until = begin + std::min(rows_held_ - rows_done_, end - begin);
    if constexpr (PlacingPolicy<P>)
      for (std::size_t row = begin; row < until && options_.watcher != nullptr && !stopped_; ++row) {
        const bool served = piece_->op[row] == Op::alloc;
        const Extent extent = served ? policy_.extent_of(piece_->slot[row]) : Extent{};
        if (!options_.watcher->done(row, served ? &extent : nullptr)) stopped_ = true;
      }
    return until;
  }

  void add_to_series(const Measures& measures, std::uint32_t event) {
    if (result_.series.size() == stretch_) result_.series.push_back({.first_event = event});
    SeriesPoint& point = result_.series.back();
    point.live_max = std::max(point.live_max, measures.live.value);
    point.allocated_max = std::max(point.allocated_max, measures.allocated.value);
    point.reserved_max = std::max(point.reserved_max, measures.reserved.value);
    point.external_fragmentation_max = std::max(point.external_fragmentation_max, measures.external_fragmentation);
  }

  /// A policy that is a mere sum can process many rows at once.
  bool done_at_once(std::size_t begin, std::size_t end, Measures& measures) {
    if constexpr (requires { policy_.run_at_once(*piece_, begin, end, live_, measures); })
      return failed_.empty() && policy_.run_at_once(*piece_, begin, end, live_, measures);
    else
      return false;
  }

  void run_rows(std::size_t begin, std::size_t end, Measures& measures) {
    // With fewer allocations, everything stays in the cache anyway.
    const bool far_apart = heap_.slot_count > 8192;
    const std::span ops = piece_->op;
    const std::span slots = piece_->slot;
    const std::span pool_streams = piece_->pool_stream;
    const std::span sizes = piece_->size;
    for (std::size_t row = begin; row < end && !stopped_; ++row) {
      if (row % rows_between_looks == 0 && is_late()) [[unlikely]] {
        result_.unfinished = stopped_ = true;
        break;
      }
      if (far_apart) foresee(row);
      const std::uint32_t slot = slots[row];
      const Bytes size = sizes[row];
      switch (ops[row]) {
        case Op::alloc:
          guide(row);
          if (policy_.allocate(slot, size, pool_streams[row])) [[likely]]
            note_served(row, measures);
          else
            go_without(row, measures);
          break;
        case Op::free:
          if (failed_.contains(slot)) [[unlikely]] {
            failed_.remove(slot);
            break;
          }
          if constexpr (StreamOrderedPolicy<P>) policy_.freed_on(slot, pool_streams[row]);
          policy_.free(slot, size);
          live_ -= size;
          break;
        case Op::free_requested:
          if (failed_.contains(slot)) [[unlikely]]
            break;
          if constexpr (StreamOrderedPolicy<P>) policy_.freed_on(slot, pool_streams[row]);
          policy_.free_requested(slot, size);
          live_ -= size;
          break;
        case Op::free_completed:
          if (failed_.contains(slot)) [[unlikely]] {
            failed_.remove(slot);
            break;
          }
          policy_.free_completed(slot, size);
          break;
        default:
          run_rare(row, measures);
          break;
      }
      measures.see_free(policy_);
    }
  }

  void guide(std::size_t row) {
    if constexpr (GuidedPolicy<P>)
      if (!piece_->address.empty()) policy_.guide(piece_->address[row]);
  }

  /// Operations other than allocations and frees; separate, to keep the main loop small.
  [[gnu::noinline]] void run_rare(std::size_t row, Measures& measures) {
    const std::uint32_t pool_stream = piece_->pool_stream[row];
    // NOLINTBEGIN(bugprone-branch-clone): cases are alike for policies that have none of these members
    switch (piece_->op[row]) {
      case Op::alloc_failed:
        try_again(row, measures);
        break;
      case Op::empty_cache:
        policy_.empty_cache();
        break;
      case Op::empty_pool:
        if constexpr (PoolingPolicy<P>) policy_.empty_pool(pool_stream);
        break;
      case Op::pool_ended:
        if constexpr (PoolingPolicy<P>) policy_.pool_ended(pool_stream);
        break;
      case Op::pool_restored:
        if constexpr (RestoringPolicy<P>) {
          const RecordedSegment& segment = heap_.restored_segments[piece_->slot[row]];
          policy_.pool_restored(pool_stream, segment.address, segment.size);
        }
        break;
      case Op::device_synchronized:
        if constexpr (SynchronizingPolicy<P>) policy_.device_synchronized();
        break;
      case Op::stream_synchronized:
        if constexpr (SynchronizingPolicy<P>) policy_.stream_synchronized(pool_stream);
        break;
      case Op::stream_waits:
        if constexpr (SynchronizingPolicy<P>) policy_.stream_waits(pool_stream, piece_->slot[row]);
        break;
      default:
        break;
    }
    // NOLINTEND(bugprone-branch-clone)
  }

  [[gnu::always_inline]] void note_served(std::size_t row, Measures& measures) {
    const HeapUse& use = policy_.use();
    live_ += piece_->size[row];
    measures.live.see(live_, row);
    measures.allocated.see(use.allocated, row);
    if (measures.see_reserved(use, live_, row)) [[unlikely]]
      note_growth(row);
  }

  [[gnu::noinline]] void go_without(std::size_t row, Measures& measures) {
    if (after_empty_cache(piece_->slot[row], row)) return note_served(row, measures);
    failed_.add(piece_->slot[row]);
    note_failure(row);
  }

  bool follows_addresses() const {
    return PlacingPolicy<P> &&
           (options_.watcher != nullptr || (options_.placement_metrics && !heap_.step_ends.empty()));
  }

  /// Row by row, so that other runs don't pay for it.
  void run_and_follow(std::size_t begin, std::size_t end, Measures& measures) {
    if constexpr (PlacingPolicy<P>)
      for (std::size_t row = begin; row < end && !stopped_; ++row) {
        run_rows(row, row + 1, measures);
        const std::uint32_t slot = piece_->slot[row];
        const bool served = piece_->op[row] == Op::alloc && !failed_.contains(slot);
        const Extent extent = served ? policy_.extent_of(slot) : Extent{};
        if (served && options_.placement_metrics) addresses_.served(row, piece_->size[row], extent.address);
        if (options_.watcher && !options_.watcher->done(row, served ? &extent : nullptr)) stopped_ = true;
      }
  }

  /// A request that failed in the recording. The program continued without the memory, so it is returned at once.
  [[gnu::noinline]] void try_again(std::size_t row, Measures& measures) {
    const std::uint32_t slot = heap_.slot_count;
    if (policy_.allocate(slot, piece_->size[row], piece_->pool_stream[row]) || after_empty_cache(slot, row))
      policy_.free(slot, piece_->size[row]);
    else if (!options_.stop_at_failure)
      note_failure(row);
    if (measures.see_reserved(policy_.use(), live_, row)) note_growth(row);
  }

  bool after_empty_cache(std::uint32_t slot, std::size_t row) {
    if (!options_.empty_cache_on_failure) return false;
    policy_.empty_cache();
    return policy_.allocate(slot, piece_->size[row], piece_->pool_stream[row]);
  }

  [[gnu::noinline]] void note_growth(std::size_t row) {
    const HeapUse& use = policy_.use();
    if (use.reserved <= all_.reserved.value) return;  // only the maximum of this stretch counts
    if (use.reserved > options_.give_up_above) result_.gave_up = stopped_ = true;
    look_for_stranded(row);
  }

  void look_for_stranded(std::size_t row) {
    if constexpr (PlacingPolicy<P> && !requires { requires P::serves_any_pool_stream; }) {
      if (!options_.placement_metrics || heap_.pool_streams.size() < 2 || !free_.could_grow(policy_.use().free)) return;
      free_.see_growth(policy_, heap_.pool_streams[piece_->pool_stream[row]], piece_->size[row], piece_->event[row]);
    }
  }

  void note_failure(std::size_t row) {
    ++result_.failed_allocations;
    look_for_stranded(row);
    if (options_.stop_at_failure) stopped_ = true;
    if (result_.failed_events.size() < ReplayResult::most_failed_events)
      result_.failed_events.push_back(piece_->event[row]);
    if (result_.first_failure) return;
    result_.first_failure = {.event = piece_->event[row],
                             .requested = piece_->size[row],
                             .live = live_,
                             .reserved = policy_.use().reserved,
                             .capacity = options_.device.capacity,
                             .free = policy_.use().free,
                             .largest_free = policy_.largest_free()};
  }

  void finish() {
    result_.heap = heap_.heap;
    result_.device = heap_.device;
    result_.device_model = options_.device;
    result_.events = row_count_;
    result_.peak_live = all_.live.value;
    result_.peak_live_event = all_.live.at;
    result_.peak_allocated = all_.allocated.value;
    result_.peak_allocated_event = all_.allocated.at;
    result_.peak_reserved = all_.reserved.value;
    result_.peak_reserved_event = all_.reserved.at;
    result_.end_reserved = policy_.use().reserved;
    if (all_.reserved.value.count > 0)
      result_.fragmentation_at_peak = 1 - static_cast<double>(all_.allocated_at_reserved_peak.count) /
                                              static_cast<double>(all_.reserved.value.count);
    if (all_.allocated_at_reserved_peak.count > 0)
      result_.internal_waste = 1 - static_cast<double>(all_.live_at_reserved_peak.count) /
                                       static_cast<double>(all_.allocated_at_reserved_peak.count);
    result_.external_fragmentation_max = all_.external_fragmentation;
    if (PlacingPolicy<P> && options_.placement_metrics) {
      result_.free_memory = free_.found();
      result_.address_stability = addresses_.share();
    }
    result_.driver_calls = policy_.driver_calls();
  }

  const Prepared& heap_;
  const Prepared* piece_ = nullptr;  // whose columns hold the current rows
  P& policy_;
  const RunOptions& options_;
  FailedSlots failed_;
  AddressStability addresses_;
  FreeMetrics free_;
  Bytes live_;
  Measures all_;  // so far
  std::size_t row_count_ = 0, rows_done_ = 0;
  std::size_t rows_held_ = 0;  // at the beginning: skipped
  std::size_t stretch_count_ = 1, stretch_ = 0;
  bool stopped_ = false;
  ReplayResult result_;
};

inline void Measures::fold(const Measures& later, std::span<const std::uint32_t> events) {
  live.see(later.live.value, events[later.live.at]);
  allocated.see(later.allocated.value, events[later.allocated.at]);
  const HeapUse at_later_peak{
      .allocated = later.allocated_at_reserved_peak, .reserved = later.reserved.value, .free = {}};
  see_reserved(at_later_peak, later.live_at_reserved_peak, events[later.reserved.at]);
  external_fragmentation = std::max(external_fragmentation, later.external_fragmentation);
}

/// One run over `heap` of a policy constructed as `P(heap, settings, device)`.
template <class P, class Settings>
ReplayResult run_policy(const Prepared& heap, const Settings& settings, const RunOptions& options) {
  using enum SimulatedDevice::Placing;
  constexpr auto usual = requires { requires P::any_addresses_do; }
  ? ascending : as_driver;
  const auto placing = heap.keeps_addresses ? as_recorded : usual;
  SimulatedDevice device(options.device, heap.segments, options.backing, placing);
  P policy(heap, settings, device);
  ReplayResult result = Replay<P>(heap, policy, options).run();
  device.count_bytes(result.driver_calls);
  return result;
}

}  // namespace memreel
