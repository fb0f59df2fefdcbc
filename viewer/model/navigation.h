// Where to go: instants by name, the next event or mark, the life of what is selected.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "viewer/model/document.h"
#include "viewer/model/selection.h"

namespace memreel::viewer {

/// How many events precede an instant of `heap`: "peak", "reserved-peak", "oom" (the first failure), "end",
/// "event:123", "45%", "1.5" (seconds since the beginning). 0 where the trace has no such instant; none when `name` is
/// none of these.
std::optional<std::uint32_t> instant_named(const Document& document, HeapId heap, std::string_view name);

/// From its begin until it was freed, or the end of the trace.
TimeRange life_of(const Document& document, std::uint32_t allocation);

/// Puts the cursor after the next event of the heap's memory (`by` = 1), or the previous one (-1), and selects what it
/// is about; others change nothing that is on screen.
void step_event(const Document& document, Selection& selection, int by);

/// Likewise after the next mark, failure or `empty_cache`.
void step_mark(const Document& document, Selection& selection, int by);

/// Shows what is marked, else the life of what is selected, else all; all where that is shown already.
void look_at_selected(const Document& document, Selection& selection);

}  // namespace memreel::viewer
