// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/engine/replay_result.h"

namespace memreel {

DriverCalls& DriverCalls::operator+=(const DriverCalls& other) {
  malloc += other.malloc;
  free += other.free;
  map += other.map;
  unmap += other.unmap;
  sync += other.sync;
  malloc_async += other.malloc_async;
  free_async += other.free_async;
  malloc_shared += other.malloc_shared;
  free_shared += other.free_shared;
  malloc_bytes += other.malloc_bytes;
  free_bytes += other.free_bytes;
  map_bytes += other.map_bytes;
  unmap_bytes += other.unmap_bytes;
  return *this;
}

double ReplayResult::overhead() const {
  if (peak_live.count == 0) return 0;
  return static_cast<double>(peak_reserved.count) / static_cast<double>(peak_live.count);
}

}  // namespace memreel
