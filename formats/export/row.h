// SPDX-License-Identifier: Apache-2.0
// An event with all its references resolved: the contents of one line of an export.
#pragma once

#include "formats/export/export.h"
#include "formats/model/trace.h"

namespace memreel {

// Names come from the recorded program and may be invalid UTF-8; exports must be valid.

/// `text` with U+FFFD for every byte that is not valid UTF-8.
std::string utf8(std::string_view text);

/// The same as a quoted JSON string.
std::string json_string(std::string_view text);

struct ExportRow {
  Event event;
  std::uint64_t ordinal = 0;
  const Heap* heap = nullptr;
  std::string_view heap_name;
  std::string_view level;  // "driver", "framework"
  std::uint64_t stream_handle = 0;
  std::uint64_t tid = 0;                    // 0: unknown
  const Pool* pool = nullptr;               // null: the default pool
  std::string_view mark_name;               // of marks only
  std::string_view mark_phase;              // "instant", "begin", "end"; of marks only
  std::string_view category, layer, phase;  // on `alloc` events only, if known
};

ExportRow export_row(const Trace& trace, std::size_t i, const AllocationNotes& notes = {});

}  // namespace memreel
