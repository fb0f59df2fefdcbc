// SPDX-License-Identifier: Apache-2.0
// The records of one thread on their way to the writing thread, and the thread's other recording state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "collector/python/frame_chain.h"
#include "collector/recorder/record.h"
#include "collector/stacks/recent_walks.h"
#include "collector/stacks/stack_tree.h"
#include "collector/stacks/unwind.h"

namespace memreel::agent {

// How the program's threads wake the agent's: a futex, so that no system call is needed when nothing waits.

class Wakeup {
 public:
  /// Returns after wake(), at once if it was called since the last wait, or after `period`.
  void wait(std::chrono::milliseconds period);

  /// Any thread, also in a hook. Makes a system call only while a thread waits.
  void wake();

 private:
  enum : std::uint32_t { nothing, waiting, called };
  std::atomic<std::uint32_t> state_ = nothing;
};

/// What a thread uses to capture its stack. Too big for the program's stack, so it lies next to the ring.
struct CaptureState {
  stacks::StackBounds bounds;
  stacks::RecentStacks* recent = nullptr;
  stacks::ChainStacks* by_chain = nullptr;
  stacks::EarlierWalks* walks = nullptr;
  python::FrameChain* chain = nullptr;
  std::span<std::uint64_t> words;  // for native frames, then one for Python's
  std::span<stacks::FrameKey> native;
  std::span<stacks::PythonFrame> python;
  std::span<stacks::FrameKey> merged;
};

/// A ring with one writer at a time and one reader. Created with mmap, never destroyed, and passed from a thread that
/// ended to one that starts, with any records still in it.
class ThreadRing {  // NOLINT(clang-analyzer-optin.performance.Padding): writer and reader have lines of their own
 public:
  /// `capacity`: records, a power of two; `depth`: maximum native frames of a stack. Null if there is no memory.
  static ThreadRing* create(std::uint32_t capacity, std::uint32_t depth);

  ThreadRing(const ThreadRing&) = delete;
  ThreadRing& operator=(const ThreadRing&) = delete;
  ~ThreadRing() = delete;

  // For the ring's thread.

  bool has_room() {
    if (head_.load(std::memory_order_relaxed) - known_tail_ < capacity_) return true;
    known_tail_ = tail_.load(std::memory_order_acquire);
    return head_.load(std::memory_order_relaxed) - known_tail_ < capacity_;
  }

  /// Announces a record: until it is pushed, records from `sequence` on may still appear here.
  void begin(std::uint64_t sequence) { entering_.store(sequence, std::memory_order_relaxed); }

  /// Pushes `record` with these three values set. Only if there is room. Returns true whenever the ring has filled by
  /// another half of its capacity.
  bool push(const Record& record, stacks::StackKey stack, std::uint64_t sequence, std::uint64_t ticks) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    Record& place = records()[head & (capacity_ - 1)];
    place = record;
    // Here and not in `record`: reading a wide value right after writing its parts stalls.
    place.stack = stack;
    place.sequence = sequence;
    place.time = static_cast<std::int64_t>(ticks);
    expect_write(&records()[(head + 2) & (capacity_ - 1)]);
    head_.store(head + 1, std::memory_order_release);
    entering_.store(idle, std::memory_order_release);
    return ((head + 1) & (capacity_ / 2 - 1)) == 0;
  }

  /// Counts a record that did not fit.
  void lose() { lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// True every 61st time: that work is measured and stands for the rest. A prime, so that alternating kinds of work
  /// are all sampled.
  bool is_sample() { return ++works_ % sample_period == 0; }
  static constexpr std::uint64_t sample_period = 61;
  void add_cost(std::uint64_t ticks) {
    cost_.store(cost_.load(std::memory_order_relaxed) + ticks, std::memory_order_relaxed);
  }

  /// Before the first record of `thread`, which announces it. That record may be dropped if it comes as a recording
  /// ends.
  void take_over(std::uint32_t thread) { owner_.store(thread, std::memory_order_release); }

  CaptureState& capture() { return capture_; }

  // For the reading thread.

  /// No record with a lower number will appear here any more; `idle` if none is in progress.
  std::uint64_t entering() const { return entering_.load(std::memory_order_acquire); }
  static constexpr std::uint64_t idle = ~std::uint64_t{0};

  /// Takes the records with numbers below `limit`, oldest first, with their times in ns.
  template <class Take>
  void take_below(std::uint64_t limit, const Clock& clock, Take&& take) {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (; tail != head; ++tail) {
      // A copy: the writer regains the cache line sooner.
      Record record = records()[tail & (capacity_ - 1)];
      if (record.sequence >= limit) break;
      if (record.kind == RecordKind::thread_began) {
        thread_ = static_cast<std::uint32_t>(record.object);
        continue;
      }
      record.thread = thread_;
      record.time = in_order(clock.time_of(static_cast<std::uint64_t>(record.time)));
      take(record);
    }
    tail_.store(tail, std::memory_order_release);
  }

  /// Once all records are taken or dropped: later ones belong to its current owner.
  void ask_whose_it_is() { thread_ = owner_.load(std::memory_order_acquire); }

  /// Discards records that fill whole pages of their own; their numbers then read as 0.
  void give_back_pages();

  std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t cost_ticks() const { return cost_.load(std::memory_order_relaxed); }

  // For owners of rings.

  /// True for one caller, which owns the ring until it calls release().
  bool acquire() {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void release() { taken_.store(false, std::memory_order_release); }
  ThreadRing* next = nullptr;

 private:
  ThreadRing(std::uint32_t capacity, Record* records) : capacity_(capacity), records_(records) {}

  Record* records() { return records_; }

  /// Prefetches the place of an upcoming record, which another processor has read.
  static void expect_write([[maybe_unused]] const Record* record) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*record));  // the compiler's builtin only prefetches for reading
#endif
  }

  /// A thread's times never decrease unless the clock did: hides conversion errors.
  std::int64_t in_order(std::int64_t time) {
    constexpr std::int64_t most_off = 100'000;
    if (time > latest_ || time < latest_ - most_off) latest_ = time;
    return latest_;
  }

  std::uint32_t capacity_;
  Record* records_;
  std::atomic<bool> taken_ = true;
  std::uint32_t thread_ = 0;  // the reader's: of the records it takes
  std::int64_t latest_ = 0;   // the reader's: the time of the last one, ns

  alignas(64) std::atomic<std::uint64_t> head_ = 0;  // the writer's line
  std::uint64_t known_tail_ = 0;
  std::atomic<std::uint64_t> entering_ = idle;
  std::atomic<std::uint64_t> lost_ = 0;
  std::uint64_t works_ = 0;
  std::atomic<std::uint32_t> owner_ = 0;             // the latest thread to take it
  std::atomic<std::uint64_t> cost_ = 0;              // estimated from the samples, in ticks
  alignas(64) std::atomic<std::uint64_t> tail_ = 0;  // the reader's line
  alignas(64) CaptureState capture_;
};

}  // namespace memreel::agent
