// Specifics of PyTorch allocator histories.
#pragma once

#include <string>

#include "analyzer/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// Whether a heap is PyTorch's caching allocator of a device; not that of pinned host memory.
bool is_torch(const Trace& trace, const Prepared& heap);

bool is_torch(const Trace& trace, HeapId heap);
bool is_torch(const Tables& tables, HeapId heap);

/// Whether memreel recorded the trace: its data was observed from outside the allocators.
bool is_recording(const Trace& trace);
bool is_recording(const Header& header);

/// Why a replay can't be expected to reproduce this heap's history, in one line; empty if it can. One that began late
/// can if what the heap held then is known (Prepared::initial).
std::string why_not_reproducible(const Trace& trace, const Prepared& heap);

}  // namespace memreel
