// Which heaps of a trace are judged, and what they ran with: a trace may hold the program's requests and what their
// allocator asked of the driver.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// Those of frameworks where there are any: what they asked of the driver is their allocator's doing, not the
/// program's. Without PyTorch's pinned host memory where there is anything else, which has an allocator of its own.
std::vector<Prepared> only_requests(std::vector<Prepared> heaps);

/// Whether a heap is of PyTorch's allocator of pinned host memory, torch.host.
bool is_pinned_memory(const Prepared& heap);

/// Those that are.
std::vector<Prepared> only_pinned_memory(std::vector<Prepared> heaps);

/// PyTorch's heaps of devices where there are any, else those of other frameworks, else the driver's.
std::vector<Prepared> program_heaps(const Trace& trace);

/// The allocator that the heaps of a device ran with, and those of its settings that are not the default; nothing when
/// that is not known. Settings are the process's: any of its heaps knows them.
std::optional<PolicySpec> recorded_policy(const Trace& trace, const std::vector<Prepared>& heaps);

}  // namespace memreel
