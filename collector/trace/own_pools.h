// Custom pools (collector/include/memreel/memreel.h) as heaps of the trace.
#pragma once

#include <cstdint>
#include <string>
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
  void step(const Pool& pool, Event event) { steps_.push_back({pool.heap, event}); }
  void end_allocation(Pool& pool, std::uint64_t address);
  void complete(Pool& pool, std::uint64_t address);

  TraceOutput* writer_;
  Pools pools_;
  std::vector<Step> steps_;
};

}  // namespace memreel::agent
