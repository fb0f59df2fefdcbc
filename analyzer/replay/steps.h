// SPDX-License-Identifier: Apache-2.0
// Where a program's steps end: the iterations of a training or serving loop, from the marks of the trace.
#pragma once

#include <span>

#include "formats/model/trace.h"

namespace memreel {

/// What the steps of a program are, which PyTorch does not mark but which steps an optimizer.
inline constexpr std::string_view optimizer_passes = "each a pass of the optimizer";

struct Steps {
  std::string mark;                 // the chosen name, e.g. "step", "Optimizer.step#AdamW.step"; empty: none
  std::vector<std::uint32_t> ends;  // event indices, ascending: each ends a step
  bool are_marked = true;           // false: the program shows them, and `mark` says how
  std::string place{};              // " at train.py:9", the end of such a `mark`; empty: it names no line

  /// PyTorch made the marks, one for each optimizer that the program steps.
  bool are_of_optimizers() const { return mark.starts_with("Optimizer.step"); }

  /// What a step is. Steps of two recordings compare if this is equal, whichever optimizer and line they name.
  std::string_view kind() const {
    return are_of_optimizers() ? optimizer_passes : std::string_view(mark).substr(0, mark.size() - place.size());
  }
};

/// Of several marks that could denote a step, one that names the loop body ("step", "iteration", "ProfilerStep#7")
/// takes precedence over one inside it ("Optimizer.step"). A range ends a step at its end, an instant where it is.
/// Marks recorded for the heap's device count; otherwise those of the first device that has them, since a loop belongs
/// to the process.
Steps find_steps(const Trace& trace, HeapId heap);

/// A mark event of a trace that is not held as columns of events.
struct MarkEvent {
  std::uint32_t event = 0;
  MarkId mark = MarkId::none;
  OriginId origin = OriginId::none;
};
/// The same, for marks in event order.
Steps find_steps(const Tables& tables, std::span<const MarkEvent> marks, HeapId heap);

}  // namespace memreel
