// SPDX-License-Identifier: Apache-2.0
// Who has a device's memory: pools, and the libraries that allocate from the driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/history/device_memory.h"
#include "analyzer/history/lifetimes.h"
#include "formats/model/trace.h"

namespace memreel {

/// Who has a part of a device.
struct DevicePart {
  std::string name;            // of a pool ("PyTorch"), or of a library ("NCCL")
  HeapId heap = HeapId::none;  // of the driver, for libraries
  Bytes bytes;
  std::uint64_t communicators = 0;  // of NCCL, if they are told apart
};

/// What each holds of the device at an instant; largest first. `lives`: of the trace.
std::vector<DevicePart> parts_of(const Trace& trace, const std::vector<Lifetime>& lives, const DeviceInstant& instant);

}  // namespace memreel
