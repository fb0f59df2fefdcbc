// Where a program's steps end: the iterations of a training or serving loop, judged by the marks of the trace.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

struct Steps {
  std::string mark;                 // the name that was chosen, e.g. "step", "Optimizer.step#AdamW.step"; empty: none
  std::vector<std::uint32_t> ends;  // indices of events, ascending: each ends a step
};

/// Of several marks that could stand for a step, the one that names the loop's body ("step", "iteration",
/// "ProfilerStep#7") comes before one that is inside it ("Optimizer.step"). A range ends a step where it ends, an
/// instant where it is. When marks were recorded for the heap's device, those count; else those of the first device
/// that has them, since a loop is the process's.
Steps find_steps(const Trace& trace, HeapId heap);

/// A mark event of a trace that is not held as columns of events.
struct MarkEvent {
  std::uint32_t event = 0;
  MarkId mark = MarkId::none;
  OriginId origin = OriginId::none;
};
/// Likewise, of marks in order of their events.
Steps find_steps(const Tables& tables, std::span<const MarkEvent> marks, HeapId heap);

}  // namespace memreel
