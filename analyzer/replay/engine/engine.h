// SPDX-License-Identifier: Apache-2.0
// The replay loop: drives one policy with one heap's operations and measures it.
#pragma once

#include <span>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/measures.h"
#include "analyzer/replay/engine/policy_interface.h"

namespace memreel {

/// One run of `policy`, which must be new, over `heap`.
template <Policy P>
class Replay : private ReplayState {
 public:
  Replay(const Prepared& heap, P& policy, const RunOptions& options) : ReplayState(heap, options), policy_(policy) {}

  ReplayResult run() {
    const auto start = std::chrono::steady_clock::now();
    resume();
    if (options_.rows != nullptr)
      options_.rows->for_each_piece(heap_.heap, [&](const Prepared& piece) {
        run_piece(piece);
        return !stopped_;
      });
    else
      run_piece(heap_);
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    finish(policy_.use(), policy_.driver_calls(), PlacingPolicy<P>);
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
      if (heap_.initial && policy_.resume(*heap_.initial)) note_resumed(policy_.use());
    }
  }

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
    fail(row);
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
      fail(row);
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

  /// Notes that the request of a row failed.
  [[gnu::noinline]] void fail(std::size_t row) {
    look_for_stranded(row);
    note_failure(row, policy_.use(), policy_.largest_free());
  }

  P& policy_;
};

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
