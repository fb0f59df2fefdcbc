// Samples of memory (memory_info): of which memory they are.
#pragma once

#include "formats/model/tables.h"

namespace memreel {

/// Whether samples of this origin are of all that its heap has: the device, where that is the driver's, or a
/// framework's limit. Else they are of one pool of the heap (cudaMemPool_t), and say nothing of the device.
constexpr bool samples_whole_heap(const Origin& origin) { return origin.pool == PoolId::default_pool; }

/// Whether samples of this origin are the device's own: the memory that it has, all programs taken together.
inline bool samples_device(const Tables& tables, const Origin& origin) {
  return samples_whole_heap(origin) && tables[origin.heap].level == Level::driver && tables[origin.heap].device >= 0;
}

}  // namespace memreel
