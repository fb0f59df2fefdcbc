// SPDX-License-Identifier: Apache-2.0
#include "formats/model/trace.h"

#include <algorithm>

namespace memreel {

void EventColumns::reserve(std::size_t events) {
  kind.reserve(events);
  origin.reserve(events);
  stack.reserve(events);
  allocation.reserve(events);
  time.reserve(events);
  address_or_value.reserve(events);
  size.reserve(events);
}

void EventColumns::clear() {
  kind.clear();
  origin.clear();
  stack.clear();
  allocation.clear();
  time.clear();
  address_or_value.clear();
  size.clear();
}

void EventColumns::push_back(const Event& event) {
  kind.push_back(event.kind);
  origin.push_back(event.origin);
  stack.push_back(event.stack);
  allocation.push_back(event.allocation);
  time.push_back(event.time);
  address_or_value.push_back(has_value(event.kind) ? event.value : event.address.value);
  size.push_back(event.size);
}

std::string_view name_of(EventKind kind) {
  static constexpr std::array<std::string_view, event_kind_count> names{
      "unknown",     "alloc",         "free_requested", "free_completed", "segment_alloc", "segment_free",
      "segment_map", "segment_unmap", "alloc_failed",   "pool_begin",     "pool_end",      "sync",
      "empty_cache", "mark",          "settings",       "memory_info",    "pool_created",  "pool_destroyed"};
  const auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : names[0];
}

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
