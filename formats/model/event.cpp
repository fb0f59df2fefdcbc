// SPDX-License-Identifier: Apache-2.0
#include "formats/model/event.h"

namespace memreel {

std::string_view name_of(EventKind kind) {
  static constexpr std::array<std::string_view, event_kind_count> names{
      "unknown",     "alloc",         "free_requested", "free_completed", "segment_alloc", "segment_free",
      "segment_map", "segment_unmap", "alloc_failed",   "pool_begin",     "pool_end",      "sync",
      "empty_cache", "mark",          "settings",       "memory_info",    "pool_created",  "pool_destroyed"};
  const auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : names[0];
}

}  // namespace memreel
