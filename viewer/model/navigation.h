// SPDX-License-Identifier: Apache-2.0
// Navigation targets: named instants, the next event or mark, the selection's lifetime.
#pragma once

#include "viewer/model/document.h"
#include "viewer/model/selection.h"

namespace memreel::viewer {

/// The number of events that precede an instant of `heap`: "peak", "reserved-peak", "oom" (the first failure), "end",
/// "event:123" (after it; the first is 0), "45%", "1.5" (seconds since the beginning). 0 if the trace has no such
/// instant; none if `name` is none of these.
std::optional<std::uint32_t> instant_named(const Document& document, HeapId heap, std::string_view name);

/// The heap that a report is about (deciding_heap() in analyzer/analysis/verdict.h), as far as the trace was read; none
/// without allocations.
HeapId deciding_heap(const Document& document);

/// The heap shown first: the deciding one, or any while nothing was allocated; none if there is no heap.
HeapId main_heap(const Document& document);

/// From its begin until it was freed, or the end of the trace.
TimeRange life_of(const Document& document, std::uint32_t allocation);

/// Moves the cursor after the next event of the heap's memory (`by` = 1), or the previous one (-1), and selects its
/// allocation; other events change nothing on screen.
void step_event(const Document& document, Selection& selection, int by);

/// Likewise after the next mark, failure or `empty_cache`.
void step_mark(const Document& document, Selection& selection, int by);

/// Shows the marked range, else the selection's lifetime, else everything; everything if that is shown already.
void look_at_selected(const Document& document, Selection& selection);

/// Why there is no failed request to go to. `trace` may be null.
std::string why_no_failures(const Trace* trace);

}  // namespace memreel::viewer
