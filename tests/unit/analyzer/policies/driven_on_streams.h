// A policy that is told what to do call by call, on streams of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/policies/policy.h"
#include "analyzer/replay/device.h"
#include "analyzer/replay/prepared.h"

namespace memreel::testing {

inline DeviceModel limited_to(Bytes capacity) { return {.kind = DeviceModel::Kind::capacity, .capacity = capacity}; }

template <PlacingPolicy P>
class DrivenOnStreams {
 public:
  /// Lane i is of the i-th stream.
  template <class Settings>
  explicit DrivenOnStreams(const Settings& settings, DeviceModel model = {},
                           const std::vector<std::uint64_t>& stream_handles = {0, 7, 8})
      : device_(model, {}), policy_(heap(stream_handles), settings, device_) {}

  bool alloc(std::uint32_t slot, Bytes size, std::uint32_t lane = 0) { return policy_.allocate(slot, size, lane); }
  void free(std::uint32_t slot, Bytes size = {}) { policy_.free(slot, size); }
  void free_on(std::uint32_t lane, std::uint32_t slot) {
    policy_.freed_on(slot, lane);
    policy_.free(slot, {});
  }
  Address at(std::uint32_t slot) const { return policy_.extent_of(slot).address; }
  Bytes size(std::uint32_t slot) const { return policy_.extent_of(slot).size; }
  Bytes reserved() const { return policy_.use().reserved; }
  P* operator->() { return &policy_; }

  static constexpr std::uint32_t slots = 400;

 private:
  static Prepared heap(const std::vector<std::uint64_t>& stream_handles) {
    Prepared heap;
    for (std::uint32_t i = 0; i < stream_handles.size(); ++i)
      heap.lanes.push_back({.stream = StreamId{i}, .stream_handle = stream_handles[i]});
    heap.slot_count = slots;
    return heap;
  }
  SimulatedDevice device_;
  P policy_;
};

}  // namespace memreel::testing
