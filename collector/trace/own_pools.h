// SPDX-License-Identifier: Apache-2.0
// Custom pools (collector/include/memreel/memreel.h) as heaps of the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collector/recorder/record.h"
#include "formats/writer/trace_output.h"

namespace memreel::agent {

/// Memory: what is live in the pools.
class OwnPools {
 public:
  explicit OwnPools(TraceOutput& writer) : writer_(&writer) {}

  /// An event for a record, without time, stack, stream and thread, which are the record's.
  struct Step {
    HeapId heap = HeapId::none;
    Event event;
    bool implied = false;  // not a call of the program's: the record's stack is not its
  };

  /// `record` is in Space::own. `driver` is the driver's heap on the record's device, `name` the name for its name
  /// number. The result is valid until the next call.
  const std::vector<Step>& steps(const Record& record, HeapId driver, std::string_view name);

 private:
  struct Pool {
    HeapId heap = HeapId::none;
    std::unordered_map<std::uint64_t, std::uint64_t> segments;  // address -> size
    std::unordered_set<std::uint64_t> live, requested;          // addresses: in use; free requested but not completed
  };

  using Pools = std::unordered_map<std::uint64_t, Pool>;

  Pools::iterator pool_at(std::uint64_t address);
  Pool& make(std::uint64_t number, std::uint64_t parent, std::int16_t device, HeapId driver, std::string_view name);
  Pool& unknown(const Record& record, HeapId driver);
  bool is_full() const;
  void step(const Pool& pool, Event event, bool implied = false) { steps_.push_back({pool.heap, event, implied}); }
  void end_allocation(Pool& pool, std::uint64_t address, bool implied = false);
  void complete(Pool& pool, std::uint64_t address, bool implied = false);
  void destroy(Pool& pool);

  TraceOutput* writer_;
  Pools pools_;
  std::unordered_map<std::uint64_t, HeapId> gone_;  // destroyed
  std::vector<Step> steps_;
};

// The reports of PyTorch's allocator (collector/torch/allocator_trace.h) as heaps of the trace: one per device, as in
// an imported PyTorch history.

/// The name of a device's torch heap.
inline constexpr std::string_view torch_heap_name = "torch.cuda";

class TorchHeaps {
 public:
  explicit TorchHeaps(TraceOutput& writer) : writer_(&writer) {}

  /// The events for a record, without time and stack, which are the record's. `record` is in Space::torch_traced and
  /// comes from `thread`, `driver` is the driver's heap on its device, `pool` the name that its object refers to. The
  /// result is valid until the next call.
  const std::vector<Event>& events(const Record& record, ThreadId thread, HeapId driver,
                                   std::span<const std::byte> pool);

 private:
  HeapId heap_of(std::int16_t device, HeapId driver);

  TraceOutput* writer_;
  std::unordered_map<std::int16_t, HeapId> heaps_;  // by device
  std::vector<Event> events_;
};

}  // namespace memreel::agent
