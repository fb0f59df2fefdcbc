// SPDX-License-Identifier: Apache-2.0
// Which heaps of a trace are judged, and the allocator they ran with: a trace may hold both the program's requests and
// what their allocator requested from the driver.
#pragma once

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"
#include "formats/model/trace.h"

namespace memreel {

/// The frameworks' heaps if there are any: what they requested from the driver is their allocator's doing, not the
/// program's. Excludes PyTorch's pinned host memory, which has its own allocator, if there is anything else.
std::vector<Prepared> only_requests(std::vector<Prepared> heaps);

/// Whether a heap belongs to PyTorch's allocator of pinned host memory, torch.host.
bool is_pinned_memory(const Prepared& heap);

/// The heaps for which that is true.
std::vector<Prepared> only_pinned_memory(std::vector<Prepared> heaps);

/// PyTorch's device heaps if there are any, else those of other frameworks, else the driver's. To compare policies on
/// heaps that began late: begun_afresh().
std::vector<Prepared> program_heaps(const Trace& trace);

/// The same, or with a name all heaps that have it, on any device and of any level: none, if the trace has none.
std::vector<Prepared> program_heaps(const Trace& trace, const std::string& name);

/// The allocator that the heaps of a device ran with, and its non-default settings; nothing if unknown. Settings are
/// per process: any of its heaps has them.
std::optional<PolicySpec> recorded_policy(const Trace& trace, const std::vector<Prepared>& heaps);

/// The one policy that the logs of all these pools name (verify.h); nothing if there is none.
std::optional<PolicySpec> named_policy(const Trace& trace, const std::vector<Prepared>& heaps);

}  // namespace memreel
