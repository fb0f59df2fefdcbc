// SPDX-License-Identifier: Apache-2.0
// The tree of a device's heaps as rows of a table.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/history/device_memory.h"

namespace memreel {

/// A heap, when its device held most.
struct DeviceTreeRow {
  HeapId heap = HeapId::none;
  std::uint32_t depth = 0;  // in the tree: 0 on the device itself
  Bytes peak;               // its own, whenever that was, with the heaps inside it
  Bytes whole;              // its memory, with that of the heaps inside it
  Bytes around;             // that of its parent, else what the device held
  Bytes itself;             // its memory without that of the heaps inside it
  Bytes live;               // its allocations
};

/// Parents before their children, larger ones first.
std::vector<DeviceTreeRow> tree_rows(const DeviceMemory& device);

}  // namespace memreel
