// A policy driven by hand, on one heap with 64 slots.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/policies/policy.h"
#include "analyzer/replay/device.h"
#include "analyzer/replay/prepared.h"

namespace memreel::testing {

inline DeviceModel limited_to(Bytes capacity) { return {.kind = DeviceModel::Kind::capacity, .capacity = capacity}; }

/// Lanes: the default stream, another stream, a private pool.
template <PlacingPolicy P, class Settings>
class Driven {
 public:
  explicit Driven(Settings settings = {}, DeviceModel model = {})
      : device_(model, {}), policy_(heap(), settings, device_) {}

  bool alloc(std::uint32_t slot, Bytes size, std::uint32_t lane = 0) { return policy_.allocate(slot, size, lane); }
  void free(std::uint32_t slot) { policy_.free(slot, {}); }
  Bytes at(std::uint32_t slot) const { return policy_.extent_of(slot).address - Address{}; }
  Bytes size(std::uint32_t slot) const { return policy_.extent_of(slot).size; }
  Bytes reserved() const { return policy_.use().reserved; }
  P* operator->() { return &policy_; }

 private:
  static Prepared heap() {
    Prepared heap;
    heap.lanes = {{}, {.stream = StreamId{1}, .stream_handle = 7}, {.pool = PoolId{1}}};
    heap.slot_count = 64;
    return heap;
  }

  SimulatedDevice device_;
  P policy_;
};

}  // namespace memreel::testing
