// SPDX-License-Identifier: Apache-2.0
// A policy driven by hand, call by call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/engine/prepared.h"

namespace memreel::testing {

/// `told`: the policy can query the remaining memory.
inline DeviceModel limited_to(Bytes capacity, bool told = false) {
  return {.kind = DeviceModel::Kind::capacity, .capacity = capacity, .told = told};
}

/// On (pool, stream) pairs for the default stream, another stream, and a private pool, unless others are given.
template <Policy P, class Settings = typename P::Settings>
class Driven {
 public:
  static constexpr std::uint32_t slots = 400;

  explicit Driven(Settings settings = {}, DeviceModel model = {},
                  std::vector<PoolStream> pool_streams = usual_pool_streams())
      : device_(model, {}), policy_(heap(std::move(pool_streams)), settings, device_) {}

  bool alloc(std::uint32_t slot, Bytes size, std::uint32_t pool_stream = 0) {
    return policy_.allocate(slot, size, pool_stream);
  }
  void free(std::uint32_t slot, Bytes size = {}) { policy_.free(slot, size); }
  Bytes at(std::uint32_t slot) const { return policy_.extent_of(slot).address - Address{}; }
  Bytes size(std::uint32_t slot) const { return policy_.extent_of(slot).size; }
  Bytes reserved() const { return policy_.use().reserved; }
  P* operator->() { return &policy_; }

 private:
  static std::vector<PoolStream> usual_pool_streams() {
    return {{}, {.stream = StreamId{1}, .stream_handle = 7}, {.pool = PoolId{1}}};
  }

  static Prepared heap(std::vector<PoolStream> pool_streams) {
    Prepared heap;
    heap.pool_streams = std::move(pool_streams);
    heap.slot_count = slots;
    return heap;
  }

  SimulatedDevice device_;
  P policy_;
};

/// On (pool, stream) pairs for that many streams.
template <Policy P, class Settings = typename P::Settings>
class DrivenOnStreams : public Driven<P, Settings> {
 public:
  explicit DrivenOnStreams(const Settings& settings, DeviceModel model = {},
                           const std::vector<std::uint64_t>& stream_handles = {0, 7, 8})
      : Driven<P, Settings>(settings, model, pool_streams(stream_handles)) {}

  void free_on(std::uint32_t pool_stream, std::uint32_t slot) {
    (*this)->freed_on(slot, pool_stream);
    this->free(slot);
  }
  Address at(std::uint32_t slot) const { return Address{} + Driven<P, Settings>::at(slot); }

 private:
  static std::vector<PoolStream> pool_streams(const std::vector<std::uint64_t>& stream_handles) {
    std::vector<PoolStream> pool_streams;
    for (const std::uint64_t handle : stream_handles)
      pool_streams.push_back(
          {.stream = StreamId{static_cast<std::uint32_t>(pool_streams.size())}, .stream_handle = handle});
    return pool_streams;
  }
};

}  // namespace memreel::testing
