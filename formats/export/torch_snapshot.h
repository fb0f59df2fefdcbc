// A PyTorch memory snapshot: the pickle of torch.cuda.memory._dump_snapshot(), for https://pytorch.org/memory_viz and
// torch/cuda/_memory_viz.py.
#pragma once

#include <iosfwd>

#include "formats/export/options.h"
#include "formats/model/trace.h"

namespace memreel {

/// `device_traces`: the history of each device, by ordinal; `segments`: the state at the end, each segment completely
/// tiled by its blocks. Block sizes come from options.block_sizes, else they are the requested sizes. `host_traces` and
/// `host_segments`, if there is a heap torch.host, describe pinned host memory: what PyTorch's allocator holds and what
/// the program itself page-locked, each block in its own segment, including those cut from a reserve segment.
/// `pytorch_release`, which PyTorch's own snapshots lack, names the release whose rules apply, "" if the trace does not
/// say. An import relies on it rather than on which entries exist: entries state their pools whenever the trace does.
/// What a heap held before a late start is in `segments` only, if the trace knows all of it (Trace::initial_heaps): an
/// import finds it there again.
///
/// The levels of the trace are tied (analyzer/history/levels.h). Left out: a pool inside another pool, whose memory is
/// part of the other's; other host memory; and devices with an ordinal of 1,000 or more. In a heap without segment
/// events, and at the driver level, each allocation is its own segment. Marks become "user_defined" entries, as
/// torch.profiler's ranges do. What snapshots can't express is left out: emptied caches, waits, device samples, and a
/// heap's settings except the first.
void export_torch_snapshot(const Trace& trace, const ExportOptions& options, std::ostream& out);

}  // namespace memreel
