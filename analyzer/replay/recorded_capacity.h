// The memory limit of a recorded allocator, as far as it matters.
#pragma once

#include <optional>

#include "analyzer/engine/prepared.h"
#include "formats/model/trace.h"
#include "formats/torch/settings.h"

namespace memreel {

/// A limit under which torch.native reproduces the history, if the recorded one can't have been
/// Prepared::implied_capacity. The implied one is the largest at which garbage was collected whenever it was; the
/// amount collected each time indicates a smaller one. Each amount leaves few limits to try. None if nothing was
/// collected: PyTorch does so only where the program has set a memory fraction. If none is better, the implied one.
std::optional<Bytes> recorded_capacity(const Trace& trace, const Prepared& heap, const TorchSettings& settings);

}  // namespace memreel
