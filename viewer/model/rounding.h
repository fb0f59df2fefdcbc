// How much of its segment each allocation takes beyond what was requested.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

/// As the rules of its allocator have it (analyzer/insight/block_sizes.h). Memory: one to three bytes for each
/// allocation, mostly.
struct Rounding {
  std::vector<HeapId> heaps;  // of which it is known
  PackedView extra;           // bytes, by allocation; of those that had begun when it was found

  bool is_known(HeapId heap) const;
  /// 0 where it is not known.
  Bytes of(std::uint32_t allocation) const;
};

/// The key is how many events the document has.
using RoundingJob = Background<std::uint32_t, Rounding>;

/// Whether a heap of the document has rules that are known, and the trace is one of those that are judged.
bool has_known_rounding(const Document& document);

/// One pass over all events. None when cancelled.
std::optional<Rounding> find_rounding(const Document& document, const Progress& progress);

}  // namespace memreel::viewer
