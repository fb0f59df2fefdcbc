// SPDX-License-Identifier: Apache-2.0
// Whether what a call site keeps is a leak. docs/leaks.md has the rules and their reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/insight/leaks_population.h"
#include "analyzer/insight/rounds.h"
#include "formats/model/trace.h"

namespace memreel {

enum class LeakVerdict : std::uint8_t {
  leak,       // kept in round after round until the end, and never freed
  suspected,  // the same with weaker evidence; or repeatedly replaced by larger ones (Swelling)
  resident,   // kept from the start, or one at a time: weights, optimizer state, buffers
  cache,      // kept for a while; its contents no longer grow
  warm_up,    // grew for a while and stopped
  sawtooth,   // freed in bursts, as by garbage collection
  unknown_before_attach,
  unattributed,
};

/// Measurements of the allocations under a verdict.
struct Growth {
  std::uint32_t rounds = 0;           // in which some were allocated that still live
  std::uint32_t first = 0, last = 0;  // the first and the last of those
  double slope = 0;                   // bytes per round: least-squares fit of the bytes kept by each of those rounds
  double r2 = 0;                      // of that fit; 0 if there is nothing to fit
  std::uint32_t longest_life = 0;     // in rounds, of any allocation from there that was freed before the end
};

/// The part of a population under one verdict. Accused parts come first, if any.
struct Judged {
  LeakVerdict verdict = LeakVerdict::resident;
  Growth growth;
  std::vector<Held> kept;  // what survives, by birth
};

/// Of the bytes kept over the rounds in which some were allocated; `longest_life` is left at 0.
Growth growth_of(std::span<const Held> kept);

/// Every survivor of the population is in exactly one of the results.
std::vector<Judged> judge(const Population& population, const Rounds& rounds);

/// An object that is repeatedly replaced by a larger one: `history = torch.cat([history, x])`. No allocation is kept;
/// still, the bytes held by the site grow: what it holds at the end of its first and its last round.
struct Swelling {
  Growth growth;  // rounds: in which something larger was allocated; slope, r2: of the bytes held over the rounds
  Bytes at_first, at_last;
};

/// Whether a site frees what it allocates and still holds more from round to round, linearly, until the end: in
/// at least 16 rounds and over half of all, to twice what it held a quarter of the way, and never much less than
/// before.
std::optional<Swelling> swelling_of(const Population& population, const Rounds& rounds);

/// Whether another site also requests more and more, linearly: then the program's data grows (a curriculum, the keys of
/// a long request), and nothing is kept needlessly. One pass over the trace.
bool others_grow(const Trace& trace, HeapId heap, const Rounds& rounds, StackId site);

}  // namespace memreel
