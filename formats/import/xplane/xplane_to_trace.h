// Writes what a profile says about memory as a trace.
//
// - Each allocator is a heap that keeps its name; its device is the number in it ("GPU_0_bfc"), or host memory. A free
//   is its own completion: these allocators hand memory out again at once.
// - Regions are not recorded. Where they could be deduced (regions.h) they are segment_alloc events whose stack says
//   so; otherwise there are none, and what was reserved is not known.
// - Each event is followed by a memory_info: the bytes in use, counted in chunks, and what is left of the limit.
// - What was there before the profile began appears as allocations at its beginning as far as it was freed later; that
//   more was there is said by the losses.
// - Steps (jax.profiler.StepTraceAnnotation) and waits for memory are marks.
#pragma once

#include "formats/import/xplane/recording.h"
#include "formats/model/stack_text.h"
#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

/// The stack of a deduced segment_alloc.
inline constexpr std::string_view region_frame = "<region deduced from addresses and fragmentation figures>";

void write_trace(const Recording& recording, TraceWriter& writer);

}  // namespace memreel::xplane
