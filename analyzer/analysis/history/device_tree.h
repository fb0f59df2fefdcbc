// SPDX-License-Identifier: Apache-2.0
// The tree of a device's heaps as rows of a table.
#pragma once

#include "analyzer/analysis/history/device_memory.h"

namespace memreel {

/// Who has memory of a device.
enum class TreeNode : std::uint8_t {
  heap,    // the driver's, or a pool's
  part,    // of the driver's heap: mappings, a pool of cudaMallocAsync...
  unused,  // pools of cudaMallocAsync, of what they don't use; by samples, as what follows
  graphs,  // graphs, of their memory
  nobody,  // no call: contexts, code, other processes
};

/// A heap, when its device held most.
struct DeviceTreeRow {
  TreeNode node = TreeNode::heap;
  HeapId heap = HeapId::none;
  PoolId pool = PoolId::default_pool;  // of a part; the default pool: of mappings that all are pools'
  std::optional<std::size_t> parent;   // a row; none: on the device itself
  std::uint32_t depth = 0;             // in the tree: 0 on the device itself
  Bytes peak;                          // its own, whenever that was, with the heaps inside it
  Bytes whole;                         // its memory, with that of the heaps inside it
  Bytes around;                        // that of its parent, else what the device held; 0: by samples
  Bytes itself;                        // its memory without that of the heaps inside it
  Bytes from_device;                   // what it adds to what the device holds by its calls
  Bytes live;                          // its allocations
};

/// Parents before their children, larger ones first; then what only samples tell.
std::vector<DeviceTreeRow> tree_rows(const DeviceMemory& device);

/// "torch.cuda", "cuda.mapped", "contexts, code, other processes".
std::string name_of(const Tables& tables, const DeviceTreeRow& row);

}  // namespace memreel
