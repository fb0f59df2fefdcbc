// SPDX-License-Identifier: Apache-2.0
// What is measured while a policy runs, whichever it is.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "analyzer/replay/engine/policy_interface.h"
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
  void served(std::size_t row, Bytes requested, Address address);

  /// The share over all whole steps except the first; none if there is nothing to compare.
  std::optional<double> share() const;

 private:
  void end_step();

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

/// How far a run is, what it has measured, and the result that is made of it. Compiled once, not for every policy.
class ReplayState {
 public:
  /// Both must outlive this object.
  ReplayState(const Prepared& heap, const RunOptions& options);
  ReplayState(const ReplayState&) = delete;
  ReplayState& operator=(const ReplayState&) = delete;
  ~ReplayState();

 protected:
  /// Begins with what the policy already holds: `use`, of the initial state.
  void note_resumed(const HeapUse& use);
  void add_to_series(const Measures& measures, std::uint32_t event);
  /// A request in `row` of the piece failed. The policy then has `use`, and `largest_free` in one block.
  void note_failure(std::size_t row, const HeapUse& use, Bytes largest_free);
  /// The result, but for the time it took. `places`: the policy reports where its blocks are.
  void finish(const HeapUse& use, const DriverCalls& calls, bool places);

  std::size_t end_of_stretch() const { return row_count_ * (stretch_ + 1) / stretch_count_; }

  const Prepared& heap_;
  const Prepared* piece_ = nullptr;  // whose columns hold the current rows
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

}  // namespace memreel
