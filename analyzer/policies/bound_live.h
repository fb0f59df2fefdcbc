// bound.live: the bytes requested and not freed, a lower bound for every allocator.
//
// A bound, not an allocator: no rounding, no placement, reserved equals live at every instant.
#pragma once

#include "analyzer/engine/device.h"
#include "analyzer/engine/policy.h"
#include "analyzer/engine/policy_entry.h"

namespace memreel {

struct Measures;

class BoundLive {
 public:
  struct Settings {};

  BoundLive(const Prepared&, Settings, SimulatedDevice& device) : device_(device) {}

  bool allocate(std::uint32_t, Bytes size, std::uint32_t) {
    if (!device_.extend(size)) return false;
    use_.allocated += size;
    use_.reserved += size;
    return true;
  }
  void free_requested(std::uint32_t, Bytes size) {
    device_.shrink(size);
    use_.allocated -= size;
    use_.reserved -= size;
  }
  void free(std::uint32_t slot, Bytes size) { free_requested(slot, size); }
  void free_completed(std::uint32_t, Bytes) {}
  void empty_cache() {}

  /// Processes rows `begin` .. `end` - 1 without a branch per row. Returns false, having done nothing, if any of them
  /// would fail.
  bool run_at_once(const Prepared& heap, std::size_t begin, std::size_t end, Bytes& live, Measures& measures);

  const HeapUse& use() const { return use_; }
  Bytes largest_free() const { return {}; }
  const DriverCalls& driver_calls() const { return calls_; }

 private:
  SimulatedDevice& device_;
  HeapUse use_;
  DriverCalls calls_;  // none
};

PolicyEntry bound_live_entry();

}  // namespace memreel
