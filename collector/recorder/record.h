// SPDX-License-Identifier: Apache-2.0
// What a hook observed, on its way from the program's thread to the writing thread: a fact about one call. What the
// facts mean for the trace (which memory lives how long, in which heap) is decided by the reader of the rings.
#pragma once

#include <cstdint>
#include <ctime>
#include <type_traits>

#include "collector/stacks/stack_tree.h"

namespace memreel::agent {

enum class RecordKind : std::uint8_t {
  none = 0,
  thread_began,  // later records in this ring are from thread `object` (internal to the ring)

  alloc,           // `size` bytes at `address`; pool `object` (0: the device's current one), ordered on `stream`
  free,            // of `address`; recorded before another thread can get the memory
  free_cancelled,  // the free with sequence number `object` failed: the memory is still allocated
  alloc_failed,    // `size` bytes were refused with `status`

  // Physical memory, and the addresses it is mapped at.
  addresses_reserved,  // `size` bytes from `address`
  addresses_released,
  handle_created,   // `object` is `size` bytes on `device`
  handle_imported,  // `object` is another process's memory on `device`, size unknown
  handle_retained,  // `object` has one more reference: it was retained through the mapping at `address`
  handle_released,  // ... one less
  mapped,           // `size` bytes of `object`, from its byte `stream` on, at `address`
  unmapped,         // `size` bytes from `address`

  pool_created,       // `object` on `device` was created or first seen; its space says if it has managed memory
  pool_destroyed,     // `object`: gone once none of its memory is in use
  pool_chosen,        // `object`: serves requests on `device` that name no pool
  context_created,    // `context` on `device`
  context_destroyed,  // everything in `context` is freed with it
  device_reset,       // all contexts of `device` are destroyed

  // Memory that existed before the recording began, as counted by its allocator: begin, taken, the rest, end. The first
  // two may come several times, of which the last count. Without an answer, only the end comes.
  snapshot_begin,    // the allocator is being asked; what happens from here on takes precedence over the answer ...
  snapshot_taken,    // ... unless snapshot_end says that the answer is the state at this moment
  snapshot_segment,  // `size` bytes at `address`, of pool `object`, for `stream`; `status`: bits of SnapshotSegment
  snapshot_block,    // `size` bytes at `address`, for `stream`; in Space::torch_traced: the next piece of the segment,
                     // of which `stream` bytes were requested, `status` is its InitialUse
  snapshot_end,      // `status` 1: the answer is exact

  graph_alloc,  // a graph node: running it allocates `size` bytes at `address`
  graph_free,   // a graph node: running it frees `address`

  memory_info,  // sample: `size` bytes used, `address` bytes free, of the device; in Space::ordered: of pool `object`;
                // in Space::graph: of the device's graphs
  hook_lost,    // a call could not be observed

  // What the program itself reports. Names are numbers in Recorder::names().
  mark,             // `object` is the name of an instant or range (if it is none: a lost mark), `status` its MarkPhase
  own_pool_made,    // pool `object`, named `address`, on `device`, whose parent is own pool `stream` (0: the
                    // driver)
  own_pool_gone,    // `object`, with everything live in it
  free_requested,   // of `address` in own pool `object`: the program freed it ...
  free_completed,   // ... and the device is done with it
  resized,          // the block at `address` in an own pool now has `size` bytes
  segment_added,    // own pool `object`, or PyTorch's, got `size` bytes at `address`
  segment_removed,  // ... and returned them
};

enum class SnapshotSegment : std::uint16_t { small = 1, expandable = 2 };

/// Which memory a record is about: a family of allocators, within which addresses are unique.
enum class Space : std::uint8_t {
  linear = 0,    // cuMemAlloc
  managed,       // cuMemAllocManaged: moves between device and host
  array,         // cuArrayCreate: a handle instead of an address; the size is an estimate
  ordered,       // cuMemAllocAsync: from a pool, stream-ordered
  physical,      // cuMemCreate: a handle, mapped at addresses of the program's choice
  graph,         // of a graph's memory nodes
  pinned,        // allocated host memory
  registered,    // page-locked host memory
  imported,      // from another process or API
  torch,         // PyTorch's tensors, out of the memory above; `object` is what its allocator counts as allocated
  torch_traced,  // ... as reported by its allocator's trace: sizes as requested, separate completions. The lower
                 // half of `object` is its pool's number in Recorder::pool_keys() (0: the default pool);
                 // of an allocation the upper half is its place in autograd (collector/torch/reporters.h), with
                 // `status` 1 in a backward pass
  own,           // of pool `object` of the program's own: collector/include/memreel/memreel.h; 0: of the one that has
                 // something at `address`. `status` 1: it is older than the recording
};
inline constexpr std::size_t space_count = 12;

/// Fields that a kind does not have are zero. Recorder::emit() sets `sequence` and `time`. A caller that already knows
/// the time passes it to emit() in ticks of Recorder::clock(); until a record is drained its time is in ticks.
struct Record {
  std::uint64_t sequence = 0;  // order of all records in the process; from 1
  std::int64_t time = 0;       // ns since the Unix epoch
  std::uint64_t address = 0;
  std::uint64_t size = 0;    // bytes
  std::uint64_t stream = 0;  // the cudaStream_t as an integer
  std::uint64_t object = 0;
  stacks::StackKey stack = stacks::StackKey::none;
  std::uint32_t thread = 0;   // kernel thread ID; filled in when the record is taken from its ring
  std::int16_t device = 0;    // CUDA ordinal, -1: the host
  std::uint16_t context = 0;  // number assigned by the backend; 0: unknown
  RecordKind kind = RecordKind::none;
  Space space = Space::linear;
  std::uint16_t status = 0;  // CUresult of a failure
};
static_assert(sizeof(Record) == 64);
static_assert(std::is_trivially_copyable_v<Record>);

// The time of an event, taken in a hook.

/// If the kernel itself keeps time by the processor's counter (clock source "tsc": synchronised and steady across
/// processors), a hook reads only that counter, which takes a third of the time of reading the system clock. Ticks are
/// converted later, by interpolating between two moments at which both were read. Otherwise the hook reads the system
/// clock.
class Clock {
 public:
  enum class Source : std::uint8_t { system, counter };

  /// The counter, if it is reliable. Reads a kernel file.
  static Source best_source();

  explicit Clock(Source source = best_source());

  /// Now, for time_of(). Any thread.
  std::uint64_t ticks() const { return source_ == Source::counter ? counter() : system_time(); }

  /// Whether `ticks` can be a value that other code read from the same counter, at most 2^32 ticks ago (one to four
  /// seconds). Always false when the system clock is used. Any thread.
  bool can_be_recent(std::uint64_t ticks) const {
    constexpr std::uint64_t longest = std::uint64_t{1} << 32U;
    return source_ == Source::counter && counter() - ticks < longest;
  }

  // One thread at a time:

  /// Reads the system clock. Call it often, and before time_of() with later ticks.
  void adjust();

  /// ns since the Unix epoch, accurate to a fraction of a microsecond.
  std::int64_t time_of(std::uint64_t ticks) const;

  /// Converts ticks to ns.
  std::uint64_t duration(std::uint64_t ticks) const;

 private:
  struct Moment {
    std::uint64_t ticks = 0;
    std::int64_t time = 0;
  };

  static std::uint64_t counter();
  static std::uint64_t system_time() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  }
  static Moment moment();

  Source source_;
  Moment earlier_, recent_;  // at least 10 ms apart, except at the start
  double ns_per_tick_ = 0;
};

#if defined(__x86_64__)
inline std::uint64_t Clock::counter() { return __builtin_ia32_rdtsc(); }
#else
inline std::uint64_t Clock::counter() { return 0; }  // never called
#endif

}  // namespace memreel::agent
