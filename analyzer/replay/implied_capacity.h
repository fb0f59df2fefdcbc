// How much memory the recorded run can have been allowed, judged by what it was given and refused.
#pragma once

#include <optional>

#include "analyzer/replay/prepared.h"

namespace memreel {

/// The largest capacity at which every recorded refusal is one: the segment that was asked for did not fit beside what
/// was reserved. A refusal shows as a failed request, or as segments released inside a request before it was granted
/// one. None when nothing was refused. When no single capacity explains everything (others used the device too), the
/// most that was ever reserved.
///
/// Needs `heap.settings`; segment sizes of failed requests follow torch.native. None for heaps of others, whose
/// recordings have no segments: an RMM log does not say how large the pool was, and pools fail by fragmentation too.
std::optional<Bytes> implied_capacity(const Trace& trace, const Prepared& heap);

}  // namespace memreel
