// A policy that is told what to do call by call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/policy.h"
#include "analyzer/engine/prepared.h"

namespace memreel::testing {

/// `told`: the policy can ask how much is left.
inline DeviceModel limited_to(Bytes capacity, bool told = false) {
  return {.kind = DeviceModel::Kind::capacity, .capacity = capacity, .told = told};
}

/// On lanes of the default stream, another stream, and a private pool, unless others are given.
template <Policy P, class Settings = typename P::Settings>
class Driven {
 public:
  static constexpr std::uint32_t slots = 400;

  explicit Driven(Settings settings = {}, DeviceModel model = {}, std::vector<Lane> lanes = usual_lanes())
      : device_(model, {}), policy_(heap(std::move(lanes)), settings, device_) {}

  bool alloc(std::uint32_t slot, Bytes size, std::uint32_t lane = 0) { return policy_.allocate(slot, size, lane); }
  void free(std::uint32_t slot, Bytes size = {}) { policy_.free(slot, size); }
  Bytes at(std::uint32_t slot) const { return policy_.extent_of(slot).address - Address{}; }
  Bytes size(std::uint32_t slot) const { return policy_.extent_of(slot).size; }
  Bytes reserved() const { return policy_.use().reserved; }
  P* operator->() { return &policy_; }

 private:
  static std::vector<Lane> usual_lanes() {
    return {{}, {.stream = StreamId{1}, .stream_handle = 7}, {.pool = PoolId{1}}};
  }

  static Prepared heap(std::vector<Lane> lanes) {
    Prepared heap;
    heap.lanes = std::move(lanes);
    heap.slot_count = slots;
    return heap;
  }

  SimulatedDevice device_;
  P policy_;
};

/// On lanes of as many streams.
template <Policy P, class Settings = typename P::Settings>
class DrivenOnStreams : public Driven<P, Settings> {
 public:
  explicit DrivenOnStreams(const Settings& settings, DeviceModel model = {},
                           const std::vector<std::uint64_t>& stream_handles = {0, 7, 8})
      : Driven<P, Settings>(settings, model, lanes(stream_handles)) {}

  void free_on(std::uint32_t lane, std::uint32_t slot) {
    (*this)->freed_on(slot, lane);
    this->free(slot);
  }
  Address at(std::uint32_t slot) const { return Address{} + Driven<P, Settings>::at(slot); }

 private:
  static std::vector<Lane> lanes(const std::vector<std::uint64_t>& stream_handles) {
    std::vector<Lane> lanes;
    for (const std::uint64_t handle : stream_handles)
      lanes.push_back({.stream = StreamId{static_cast<std::uint32_t>(lanes.size())}, .stream_handle = handle});
    return lanes;
  }
};

}  // namespace memreel::testing
