// SPDX-License-Identifier: Apache-2.0
#include "formats/model/trace.h"

#include <algorithm>

#include "formats/model/printable.h"

namespace memreel {
void make_printable(Header& header) {
  for (std::string* text : {&header.producer, &header.source, &header.source_name, &header.host, &header.machine})
    make_printable(*text);
  for (Variables* variables : {&header.environment, &header.versions}) {
    Variables printable;
    for (const auto& variable : *variables) {
      std::string name = variable.first, value = variable.second;
      make_printable(name);
      make_printable(value);
      printable.try_emplace(std::move(name), std::move(value));
    }
    *variables = std::move(printable);
  }
}

bool is_sound(const InitialHeap& initial) {
  std::uint64_t end = 0;  // of the segment before
  for (const InitialSegment& segment : initial.segments) {
    const std::uint64_t address = segment.address.value, size = segment.size.count;
    if (address < end || size == 0 || size > ~address || segment.range.value > address) return false;
    std::uint64_t rest = size;
    for (const InitialBlock& block : segment.blocks) {
      if (block.size.count == 0 || block.size.count > rest) return false;
      rest -= block.size.count;
    }
    if (rest != 0) return false;
    end = address + size;
  }
  return true;
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
