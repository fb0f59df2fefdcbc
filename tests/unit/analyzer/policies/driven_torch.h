// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator driven by hand, call by call.
#pragma once

#include <cstdint>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/policies/torch_native.h"

namespace memreel::testing {

/// A policy driven by hand: (pool, stream) 0 is the default stream, 1 another stream, and 2 a private pool.
class DrivenTorch {
 public:
  explicit DrivenTorch(TorchSettings settings = {}, DeviceModel model = {})
      : device_(model, {}), policy_(heap(), settings, device_) {}

  /// Allocates into a slot; false when it failed.
  bool alloc(std::uint32_t slot, Bytes size, std::uint32_t pool_stream = 0) {
    return policy_.allocate(slot, size, pool_stream);
  }
  void free(std::uint32_t slot) { policy_.free(slot, {}); }
  Address at(std::uint32_t slot) const { return policy_.block_of(slot).address; }
  Bytes offset(std::uint32_t slot, std::uint32_t from = 0) const { return at(slot) - at(from); }
  Bytes size(std::uint32_t slot) const { return policy_.block_of(slot).size; }
  Bytes reserved() const { return policy_.use().reserved; }
  TorchNative<>* operator->() { return &policy_; }

 private:
  static Prepared heap() {
    Prepared heap;
    heap.pool_streams = {{.stream_handle = 0}, {.stream = StreamId{1}, .stream_handle = 7}, {.pool = PoolId{1}}};
    heap.slot_count = 16;
    return heap;
  }
  SimulatedDevice device_;
  TorchNative<> policy_;
};

}  // namespace memreel::testing
