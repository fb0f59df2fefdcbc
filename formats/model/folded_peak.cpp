// SPDX-License-Identifier: Apache-2.0
#include "formats/model/folded_peak.h"

#include <algorithm>
#include <map>

namespace memreel {

Bytes folded_peak(const FoldedHistory& folded, HeapId heap) {
  std::map<std::uint32_t, std::int64_t> change;  // by interval
  Bytes most;
  for (const FoldedRow& row : folded.rows) {
    if (row.heap != heap) continue;
    change[row.interval] += static_cast<std::int64_t>(row.allocated.count) - static_cast<std::int64_t>(row.freed.count);
    if (row.allocations > 0) most = std::max(most, Bytes{row.allocated.count / row.allocations});
  }
  std::int64_t live = 0;
  for (const auto& [interval, bytes] : change) {
    live += bytes;
    if (live > 0) most = std::max(most, Bytes{static_cast<std::uint64_t>(live)});
  }
  return most;
}

}  // namespace memreel
