// Which heaps together make up the memory of devices.
#pragma once

#include <string>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/tables.h"

namespace memreel {

/// By HeapId: true for heaps on devices that are not inside another pool's memory. If the trace's levels are tied,
/// these heaps never overlap.
std::vector<bool> device_heaps(const Tables& tables);

/// "device 0 torch.cuda", valid UTF-8.
std::string heap_label(const Tables& tables, HeapId heap);

/// A frame's label in tools that show one line: its function, or its position in its module.
std::string frame_label(const Tables& tables, FrameId frame);

}  // namespace memreel
