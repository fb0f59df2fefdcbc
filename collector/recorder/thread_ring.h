// The records of one thread on their way to the writing thread, and what else a thread needs while it records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collector/python/frame_chain.h"
#include "collector/recorder/clock.h"
#include "collector/recorder/record.h"
#include "collector/stacks/chain_stacks.h"
#include "collector/stacks/merge.h"
#include "collector/stacks/recent_stacks.h"
#include "collector/stacks/unwind.h"

namespace memreel::agent {

/// What a thread uses to capture its stack. Big, so it lies beside the ring and not on the program's stack.
struct CaptureState {
  stacks::StackBounds bounds;
  stacks::RecentStacks* recent = nullptr;
  stacks::ChainStacks* by_chain = nullptr;
  stacks::EarlierWalks* walks = nullptr;
  python::FrameChain* chain = nullptr;
  std::span<std::uint64_t> words;  // of native frames, and then one for Python's
  std::span<stacks::FrameKey> native;
  std::span<stacks::PythonFrame> python;
  std::span<stacks::FrameKey> merged;
};

/// A ring with one writer at a time and one reader. It is made by mmap, never destroyed, and passed on from a thread
/// that ended to one that begins, with whatever is still in it.
class ThreadRing {  // NOLINT(clang-analyzer-optin.performance.Padding): writer and reader have lines of their own
 public:
  /// `capacity`: records, a power of two; `depth`: native frames of the deepest stack. Null when there is no memory.
  static ThreadRing* create(std::uint32_t capacity, std::uint32_t depth);

  ThreadRing(const ThreadRing&) = delete;
  ThreadRing& operator=(const ThreadRing&) = delete;
  ~ThreadRing() = delete;

  // The ring's thread.

  bool has_room() {
    if (head_.load(std::memory_order_relaxed) - known_tail_ < capacity_) return true;
    known_tail_ = tail_.load(std::memory_order_acquire);
    return head_.load(std::memory_order_relaxed) - known_tail_ < capacity_;
  }

  /// Announces a record: until it is pushed, records from `sequence` on may still be missing here.
  void begin(std::uint64_t sequence) { entering_.store(sequence, std::memory_order_relaxed); }

  /// `record` but for these three. Only when it has room. True once in a while: when the ring has filled by half its
  /// capacity more.
  bool push(const Record& record, stacks::StackKey stack, std::uint64_t sequence, std::uint64_t ticks) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    Record& place = records()[head & (capacity_ - 1)];
    place = record;
    // Here and not in `record`: what was just written in parts can't be copied at once without waiting for it.
    place.stack = stack;
    place.sequence = sequence;
    place.time = static_cast<std::int64_t>(ticks);
    expect_write(&records()[(head + 2) & (capacity_ - 1)]);
    head_.store(head + 1, std::memory_order_release);
    entering_.store(idle, std::memory_order_release);
    return ((head + 1) & (capacity_ / 2 - 1)) == 0;
  }

  /// Counts a record that had no room.
  void lose() { lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// True at every 61st time: what is done then is measured, and stands for the others. A prime, so that work of
  /// several kinds in turns is all measured.
  bool is_sample() { return ++works_ % sample_period == 0; }
  static constexpr std::uint64_t sample_period = 61;
  void add_cost(std::uint64_t ticks) {
    cost_.store(cost_.load(std::memory_order_relaxed) + ticks, std::memory_order_relaxed);
  }

  /// Before the first record of `thread`, which says so too. That may be dropped, when it comes as a recording ends.
  void take_over(std::uint32_t thread) { owner_.store(thread, std::memory_order_release); }

  CaptureState& capture() { return capture_; }

  // The reading thread.

  /// No record with a lower number than this will appear here any more; `idle` when none is on its way.
  std::uint64_t entering() const { return entering_.load(std::memory_order_acquire); }
  static constexpr std::uint64_t idle = ~std::uint64_t{0};

  /// Takes the records with numbers below `limit`, oldest first, their times in ns.
  template <class Take>
  void take_below(std::uint64_t limit, const Clock& clock, Take&& take) {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (; tail != head; ++tail) {
      // A copy: memory that is only read is sooner the writer's again.
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

  /// When all records are taken or dropped: those that follow are its owner's.
  void ask_whose_it_is() { thread_ = owner_.load(std::memory_order_acquire); }

  /// What records are in pages of their own is forgotten; their numbers read 0.
  void give_back_pages();

  std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t cost_ticks() const { return cost_.load(std::memory_order_relaxed); }

  // Whoever holds rings.

  /// True for one caller, whose ring it is until it calls release().
  bool acquire() {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void release() { taken_.store(false, std::memory_order_release); }
  ThreadRing* next = nullptr;

 private:
  ThreadRing(std::uint32_t capacity, Record* records) : capacity_(capacity), records_(records) {}

  Record* records() { return records_; }

  /// Where a record will soon be, which another processor has read: its memory is fetched meanwhile.
  static void expect_write([[maybe_unused]] const Record* record) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*record));  // the compiler's builtin fetches to read only
#endif
  }

  /// A thread's times don't go back where the clock did not: what they are off by is kept out of sight.
  std::int64_t in_order(std::int64_t time) {
    constexpr std::int64_t most_off = 100'000;
    if (time > latest_ || time < latest_ - most_off) latest_ = time;
    return latest_;
  }

  std::uint32_t capacity_;
  Record* records_;
  std::atomic<bool> taken_ = true;
  std::uint32_t thread_ = 0;  // the reader's: of the records that it takes
  std::int64_t latest_ = 0;   // the reader's: the time of the last one, ns

  alignas(64) std::atomic<std::uint64_t> head_ = 0;  // the writer's line
  std::uint64_t known_tail_ = 0;
  std::atomic<std::uint64_t> entering_ = idle;
  std::atomic<std::uint64_t> lost_ = 0;
  std::uint64_t works_ = 0;
  std::atomic<std::uint32_t> owner_ = 0;             // the thread that took it last
  std::atomic<std::uint64_t> cost_ = 0;              // that the samples stand for, in ticks
  alignas(64) std::atomic<std::uint64_t> tail_ = 0;  // the reader's line
  alignas(64) CaptureState capture_;
};

}  // namespace memreel::agent
