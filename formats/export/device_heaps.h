// Which heaps together are the memory of devices.
#pragma once

#include <string>
#include <vector>

#include "formats/model/event.h"
#include "formats/model/tables.h"

namespace memreel {

/// By HeapId: those of devices that are not in another pool's memory. Where the levels of a trace are tied, no memory
/// is in two of them.
std::vector<bool> device_heaps(const Tables& tables);

/// "device 0 torch.cuda", valid UTF-8.
std::string heap_label(const Tables& tables, HeapId heap);

/// What a frame is called in tools that show one line: its function, or where in its module it is.
std::string frame_label(const Tables& tables, FrameId frame);

}  // namespace memreel
