// Writes a profile's memory data as a trace.
//
// - Each allocator is a heap with the same name; its device is the number in it ("GPU_0_bfc"), or host memory. Frees
//   complete at once: these allocators reuse memory immediately.
// - Regions are not recorded. If they could be inferred (regions.h), they are segment_alloc events whose stack says so;
//   otherwise there are none, and reserved bytes are unknown.
// - Each event is followed by a memory_info: the bytes in use, counted in chunks, and the rest up to the limit.
// - What existed before the profile began appears as allocations at its start, as far as it was freed later; that there
//   was more is reported in the losses.
// - Steps (jax.profiler.StepTraceAnnotation) and waits for memory are marks.
#pragma once

#include "formats/import/xplane/recording.h"
#include "formats/model/stack_text.h"
#include "formats/writer/trace_writer.h"

namespace memreel::xplane {

/// The stack of an inferred segment_alloc.
inline constexpr std::string_view region_frame = "<region deduced from addresses and fragmentation figures>";

void write_trace(const Recording& recording, TraceWriter& writer);

}  // namespace memreel::xplane
