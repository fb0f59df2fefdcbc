// SPDX-License-Identifier: Apache-2.0
// What the program's heaps hold, for queries by the program itself and by outside watchers while it runs.
#pragma once

#include <atomic>
#include <mutex>

#include "formats/model/live_set.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel::agent {

struct HeapUsage {
  std::int32_t device = 0;  // CUDA ordinal, -1: the host
  Level level = Level::driver;
  std::string name;
  Bytes live;      // requested and not freed
  Bytes peak;      // highest `live` since the peaks were last reset
  Bytes reserved;  // its segments; for a framework that does not report them, all that its parent gave out

  friend bool operator==(const HeapUsage&, const HeapUsage&) = default;
};

/// The latest sample of a device's memory, by all processes.
struct DeviceUsage {
  std::int32_t device = 0;  // CUDA ordinal
  Bytes used, free;

  friend bool operator==(const DeviceUsage&, const DeviceUsage&) = default;
};

/// What the program has requested on a device, over all its heaps, each byte once: the memory of a pool is its
/// allocations. Below PyTorch, whose segments are not known while it runs, only its tensors count.
struct RequestedUsage {
  std::int32_t device = 0;  // CUDA ordinal, -1: the host
  Bytes live, peak;         // as of a heap

  friend bool operator==(const RequestedUsage&, const RequestedUsage&) = default;
};

struct MemoryUsage {
  std::vector<HeapUsage> heaps;           // in order of first use
  std::vector<DeviceUsage> devices;       // likewise
  std::vector<RequestedUsage> requested;  // likewise
};

/// Updated by the writing thread, queried by any other: the query goes to the writing thread, which answers once it has
/// counted everything that happened before.
class Usage {
 public:
  // For the writing thread.

  /// Updates what a heap holds. `heap` and its `name` are used only the first time.
  void follow(const HeapState& state, const Heap& heap, std::string_view name);
  void sample(const DeviceUsage& device);
  /// Answers the query if everything before it is counted: all records with sequence numbers below `counted`.
  void settle(std::uint64_t counted);
  /// A new trace begins, with other heaps.
  void forget();

  // For any thread that may wait.

  enum class Peaks : std::uint8_t { keep, reset };
  /// Queries the heaps after the records below `sequence`. One thread waits at a time, the others for it. Calls `wake`
  /// once, so that settle() is called soon. Empty if there is no answer within `limit`.
  template <class Wake>
  MemoryUsage ask(std::uint64_t sequence, Peaks peaks, std::chrono::milliseconds limit, Wake wake) {
    const std::lock_guard alone(asking_);
    pose(sequence, peaks);
    wake();
    return await_answer(limit);
  }

 private:
  void pose(std::uint64_t sequence, Peaks peaks);
  MemoryUsage await_answer(std::chrono::milliseconds limit);
  const HeapUsage* at(HeapId heap) const;
  void follow_device(const HeapUsage& before, const HeapUsage& now, bool is_nested);

  // The writing thread's state.
  MemoryUsage now_;
  std::vector<HeapId> parents_;   // of the heaps in now_
  std::vector<bool> are_nested_;  // of these: in another pool
  struct Parts {
    Bytes driver, in_pools;     // what the driver gave out, and of it what pools have
    std::int64_t of_pools = 0;  // their allocations, without those that pools inside them have
    bool has_torch = false;
    /// The latest change. What the driver gives is not the program's peak if it becomes a pool's segment next, nor is
    /// a segment that is about to be freed.
    enum class Last : std::uint8_t { settled, gave, returned } last = Last::settled;
  };
  std::vector<Parts> parts_;                   // of the devices in now_.requested
  std::vector<std::uint32_t> place_in_heaps_;  // by HeapId; none: unused
  static constexpr std::uint32_t none = 0xFFFF'FFFF;

  MemoryUsage answer_;  // the writing thread's while a query is open, else the querying thread's
  std::mutex asking_;
  std::atomic<Peaks> peaks_ = Peaks::keep;   // of the open query
  std::atomic<std::uint64_t> question_ = 0;  // the sequence number queried; 0: none is open
};

}  // namespace memreel::agent
