// SPDX-License-Identifier: Apache-2.0
// What every call site holds at an instant, and what it had allocated by then.
#pragma once

#include "formats/export/export.h"
#include "formats/model/tables.h"
#include "formats/model/trace.h"

namespace memreel {

// Which heaps together make up the memory of devices.

/// By HeapId: true for heaps on devices that are not inside another pool's memory; where no heap is on a device, for
/// those of host memory. If the trace's levels are tied, these heaps never overlap.
std::vector<bool> device_heaps(const Tables& tables);

/// "device 0 torch.cuda", valid UTF-8.
std::string heap_label(const Tables& tables, HeapId heap);

/// A frame's label in tools that show one line: its function, or its position in its module.
std::string frame_label(const Tables& tables, FrameId frame);

/// Requested bytes of the allocations with one stack, origin and purpose.
struct StackWeight {
  StackId stack = StackId::none;
  OriginId origin = OriginId::none;
  std::string_view category, layer, phase;  // from AllocationNotes; empty if there are none
  std::uint64_t made = 0;                   // up to the instant
  Bytes made_bytes;
  std::uint64_t live = 0;  // at the instant: allocated and not freed
  Bytes live_bytes;
};

/// In order of stack, origin, category and phase. The instant is after the first `events` events; by default it is, for
/// each heap, when its live bytes first peaked. Two passes over the trace; memory: the result.
std::vector<StackWeight> stack_weights(const Trace& trace, std::optional<std::uint64_t> events,
                                       const AllocationNotes& notes = {});

}  // namespace memreel
