// The limit that a recorded allocator was told of, as far as it matters.
#pragma once

#include <optional>

#include "analyzer/engine/prepared.h"
#include "analyzer/policies/torch_settings.h"
#include "formats/model/trace.h"

namespace memreel {

/// A limit under which torch.native repeats the history, when the recorded one can't have been
/// Prepared::implied_capacity. That is the largest at which garbage was collected whenever it was; how much was
/// collected each time speaks for a smaller one. Each amount leaves few limits to try. Without a better one, the
/// implied one.
std::optional<Bytes> recorded_capacity(const Trace& trace, const Prepared& heap, const TorchSettings& settings);

}  // namespace memreel
