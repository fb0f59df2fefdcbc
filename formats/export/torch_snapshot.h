// A PyTorch memory snapshot: the pickle of torch.cuda.memory._dump_snapshot(), for https://pytorch.org/memory_viz and
// torch/cuda/_memory_viz.py.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// `device_traces`: the history of each device by its ordinal; `segments`: what is there at the end, each tiled by its
/// blocks without a gap. Block sizes are those of options.block_sizes, else what was requested.
/// `host_traces` and `host_segments`, where there is a heap torch.host, have pinned host memory: what PyTorch's
/// allocator holds and what the program page-locked itself, each block a segment of its own, those cut off a reserve
/// segment too. `pytorch_release`, which PyTorch's own don't have: whose rules hold, "" where the trace does not tell.
/// An import goes by it, not by which entries there are: they state their pools whenever the trace does.
///
/// The levels of the trace are tied (analyzer/history/levels.h). A pool inside another pool is left out, for its memory
/// is in the other's; so is other host memory, and a device with an ordinal of 1,000 or more. Where a heap has no
/// segment events, and at the driver's level, each allocation is a segment of its own. Marks become entries
/// "user_defined", as torch.profiler's ranges do. What a snapshot has no word for is left out: emptied caches, waits,
/// samples of the device, and settings but the first of a heap.
void export_torch_snapshot(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
