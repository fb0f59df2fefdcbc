// SPDX-License-Identifier: Apache-2.0
// What the driver said of devices when it was asked (memory_info): besides what calls tell, what nobody's call tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

/// A device, or what it holds beside the calls that are recorded.
struct DeviceSamples {
  Bytes total;      // the device's own
  Bytes pools;      // held by pools of cudaMallocAsync and not in use
  Bytes graphs;     // held for the memory of graphs, in use or not
  Bytes of_nobody;  // in use, but told by no call: contexts, code, other processes

  friend bool operator==(const DeviceSamples&, const DeviceSamples&) = default;
};

/// All samples of a trace, and what its devices held by then.
class SampledDevices {
 public:
  explicit SampledDevices(const Trace& trace);

  /// From this event on, the device holds so much by its calls. Events come in order.
  void see(std::int32_t device, std::uint32_t event, Bytes held);

  /// Around an event, once all have been seen; none: the device was never sampled. A sample may be older or newer than
  /// the calls beside it: of the last before and the first after, the one with less of nobody's counts.
  std::optional<DeviceSamples> around(std::int32_t device, std::uint32_t event) const;

  /// What a pool of cudaMallocAsync had and did not use, by the last sample until this event; none: there is none.
  std::optional<Bytes> unused(HeapId heap, PoolId pool, std::uint32_t event) const;

 private:
  struct Sample {
    std::uint32_t event = 0;
    Bytes used, free;
    Bytes held;  // by calls
    Bytes pools, graphs;
  };
  struct Device {
    std::vector<Sample> samples;
    std::size_t next = 0;  // of the samples, whose `held` is not yet known
    Bytes held;
  };

  std::map<std::int32_t, Device> devices_;
  std::map<std::pair<HeapId, PoolId>, std::vector<std::pair<std::uint32_t, Bytes>>> unused_;  // by event
};

}  // namespace memreel
