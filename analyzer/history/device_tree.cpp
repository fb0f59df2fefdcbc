// SPDX-License-Identifier: Apache-2.0
#include "analyzer/history/device_tree.h"

#include <algorithm>
#include <map>

namespace memreel {

std::vector<DeviceTreeRow> tree_rows(const DeviceMemory& device) {
  const DeviceInstant& peak = device.peak_held;
  std::map<HeapId, HeapPart> parts;
  for (const HeapPart& part : peak.parts) parts[part.heap] = part;
  std::map<HeapId, Bytes> inside;  // of each, what heaps inside it have
  for (const DeviceHeap& heap : device.heaps)
    if (heap.parent != HeapId::none) inside[heap.parent] += parts[heap.heap].whole;
  std::vector<DeviceTreeRow> rows;
  for (const auto& [heap, depth] : tree_of(device)) {
    const HeapPart part = parts[heap->heap];
    rows.push_back({.heap = heap->heap,
                    .depth = depth,
                    .peak = heap->peak_whole,
                    .whole = part.whole,
                    .around = heap->parent == HeapId::none ? peak.held : parts[heap->parent].whole,
                    .itself = part.whole - std::min(part.whole, inside[heap->heap]),
                    .live = part.live});
  }
  return rows;
}

}  // namespace memreel
