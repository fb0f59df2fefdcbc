// SPDX-License-Identifier: Apache-2.0
// Profiles of XLA programs (JAX, TensorFlow): XSpace files, NAME.xplane.pb.
#pragma once

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/xplane/plane.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel::xplane {

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

/// The stack of an inferred segment_alloc.
inline constexpr std::string_view region_frame = "<region deduced from addresses and fragmentation figures>";

void write_trace(const Recording& recording, ImportOutput& writer);

bool looks_like_xspace(std::span<const std::byte> beginning);

/// The memory data of all planes in a profile. Reads one plane at a time. Memory: the largest plane, the memory events,
/// and the events of one timeline.
Result<Recording> read_xspace(ByteCursor& bytes, ImportOutput& writer);

Result<void> import_xspace(ByteCursor& bytes, Header header, const BeginOutput& begin);

}  // namespace memreel::xplane
