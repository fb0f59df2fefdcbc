// How much memory each allocation takes beyond its requested size.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

/// Follows from the allocator's rules (analyzer/insight/block_sizes.h). Memory: mostly one to three bytes for each
/// allocation.
struct Rounding {
  std::vector<HeapId> heaps;  // heaps with known rounding
  PackedView extra;           // bytes, by allocation; for those that had begun when this was computed

  bool is_known(HeapId heap) const;
  /// 0 if unknown.
  Bytes of(std::uint32_t allocation) const;
};

/// The key is the number of events in the document.
using RoundingJob = Background<std::uint32_t, Rounding>;

/// Whether a heap of the document has known rules, and the trace is short enough to be judged.
bool has_known_rounding(const Document& document);

/// One pass over all events. None when cancelled.
std::optional<Rounding> find_rounding(const Document& document, const Progress& progress);

}  // namespace memreel::viewer
