// Which memory a sample (memory_info) is about.
#pragma once

#include "formats/model/tables.h"

namespace memreel {

/// Whether samples of this origin cover the whole heap: the device, for the driver's heap, or a framework's limit. Else
/// they cover one pool of the heap (cudaMemPool_t), and say nothing about the device.
constexpr bool samples_whole_heap(const Origin& origin) { return origin.pool == PoolId::default_pool; }

/// Whether samples of this origin cover the device itself: its memory, as used by all programs.
inline bool samples_device(const Tables& tables, const Origin& origin) {
  return samples_whole_heap(origin) && tables[origin.heap].level == Level::driver && tables[origin.heap].device >= 0;
}

}  // namespace memreel
