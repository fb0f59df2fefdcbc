// What growth is measured in: the steps of the program, or what stands in for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/model/trace.h"

namespace memreel {

enum class RoundSource : std::uint8_t {
  none,         // too little happened to speak of rounds
  marks,        // the program's own marks (analyzer/replay/steps.h)
  repetition,   // no marks, but an allocation that comes back at an even pace, as others do: a loop
  allocations,  // neither: stretches of equally many allocations
};

/// The trace of one heap cut into rounds. Round i lies between ends[i - 1] and ends[i], the first from the beginning.
struct Rounds {
  RoundSource source = RoundSource::none;
  std::string name;                 // of marks: the mark; of repetition: the line that comes back; else empty
  std::vector<std::uint32_t> ends;  // indices of events, ascending
  bool last_is_open = false;        // what follows the last end is a round as well, not what the program did afterwards

  std::uint32_t count() const { return static_cast<std::uint32_t>(ends.size()) + (last_is_open ? 1 : 0); }
  /// "step", or "interval" when nothing in the program stands for one.
  const char* unit() const { return source == RoundSource::allocations ? "interval" : "step"; }
};

/// Marks come first, then repetition, then intervals; each only when it gives at least eight rounds.
///
/// Repetition: of the call sites that are seen equally often, the ones that are seen least and at an even pace from the
/// beginning to the end (no pause of more than four times the usual number of allocations, hardly any of them outside)
/// belong to the outermost loop. A round begins where the first of them is seen.
Rounds find_rounds(const Trace& trace, HeapId heap);

/// The sentence that says which were used, e.g. "60 steps, from the marks \"step\"".
std::string text_of(const Rounds& rounds);

}  // namespace memreel
