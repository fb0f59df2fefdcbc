// What the program's heaps hold, for the program itself and for who watches it from outside to ask while it runs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/ids.h"
#include "formats/model/live_set.h"
#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel::agent {

struct HeapUsage {
  std::int32_t device = 0;  // CUDA ordinal, -1: the host
  Level level = Level::driver;
  std::string name;
  Bytes live;      // requested and not freed
  Bytes peak;      // the most that was live since the peaks were last reset
  Bytes reserved;  // its segments; of a framework that does not tell of them, all that its parent gave out

  friend bool operator==(const HeapUsage&, const HeapUsage&) = default;
};

/// The latest sample of a device's memory, whoever uses it.
struct DeviceUsage {
  std::int32_t device = 0;  // CUDA ordinal
  Bytes used, free;

  friend bool operator==(const DeviceUsage&, const DeviceUsage&) = default;
};

struct MemoryUsage {
  std::vector<HeapUsage> heaps;      // in order of first use
  std::vector<DeviceUsage> devices;  // likewise
};

/// Followed by the writing thread, asked by any other: the question travels to the writing thread, which answers when
/// it has counted everything that happened before.
class Usage {
 public:
  // The writing thread.

  /// What a heap holds from now on. `heap` and its `name` are looked at when it is met for the first time.
  void follow(const HeapState& state, const Heap& heap, std::string_view name);
  void sample(const DeviceUsage& device);
  /// Answers if everything that was asked for is counted: all records with sequence numbers below `counted`.
  void settle(std::uint64_t counted);
  /// There is another trace, whose heaps are others.
  void forget();

  // Any thread that may wait.

  enum class Peaks : std::uint8_t { keep, reset };
  /// Asks for the heaps after the records below `sequence`. One thread at a time waits, others for it. `wake` is called
  /// once, to have settle() called soon. Empty when there is no answer within `limit`.
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

  // The writing thread's.
  MemoryUsage now_;
  std::vector<HeapId> parents_;                // of the heaps in now_
  std::vector<std::uint32_t> place_in_heaps_;  // by HeapId; none: not used yet
  static constexpr std::uint32_t none = 0xFFFF'FFFF;

  MemoryUsage answer_;  // the writing thread's while a question is open, else the asker's
  std::mutex asking_;
  std::atomic<Peaks> peaks_ = Peaks::keep;   // of the open question
  std::atomic<std::uint64_t> question_ = 0;  // the sequence number asked for; 0: none is open
};

}  // namespace memreel::agent
