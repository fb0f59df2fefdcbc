// SPDX-License-Identifier: Apache-2.0
// The format "torch.timeline": profile.export_memory_timeline("x.raw.json.gz") of torch.profiler, 2.1 and newer.
//
// Source: torch/profiler/_memory_profiler.py, MemoryProfileTimeline.export_memory_timeline_raw: a list of
// [time in ns, action, bytes, category]. Actions: 1 existed before, 2 created, 3 a version ended (bytes negative) or
// began, 4 destroyed (negative). Categories: those of _CATEGORY_TO_INDEX, 7 for none.
//
// There are no addresses: an entry that ends something ends the latest allocation of that size and category. Live bytes
// are exact, lifetimes only as far as sizes distinguish allocations. The category at creation is the allocation's
// metadata. What existed before is as old as the first entry that has a time. The file names no device: 0, or host
// memory, if an allocation's size shows PyTorch's allocator for that.
#pragma once

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/writer/trace_output.h"

namespace memreel::torch {

// The format "torch.stats": what torch.cuda.memory_summary() prints, or torch.cuda.memory_stats() as JSON or as Python
// prints it, also in the middle of a log.
//
// Source: torch/cuda/memory.py. One instant: sums, no blocks. The trace has one allocation of what is allocated, and
// first one more, freed again, up to the peak; segments likewise. So every total is the table's and nothing else is.

bool looks_like_stats(std::span<const std::byte> beginning);

Result<void> import_stats(ByteCursor& bytes, Header header, const BeginOutput& begin);

/// A JSON list that begins with a list of integers.
bool looks_like_timeline(std::span<const std::byte> beginning);

/// Errors: also the form without allocations ("x.json"), which has only sums.
Result<void> import_timeline(ByteCursor& bytes, Header header, const BeginOutput& begin);

}  // namespace memreel::torch
