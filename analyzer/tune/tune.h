// Which settings would have needed less memory, and is empty_cache() worth calling?
//
// Every answer is a replay. The search goes in three rounds: each setting alone, combinations of the best of each, and
// what refines the best of those. The later rounds give up on a candidate as soon as it reserves more than the best so
// far, which is exact: peaks only grow. They are left out when the least any allocator could do is not worth having.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/replay/replay.h"
#include "analyzer/tune/outcome.h"
#include "analyzer/tune/what_if.h"
#include "formats/model/result.h"

namespace memreel {

struct TuneOptions {
  std::optional<DeviceModel> device;   // default: unlimited, or the capacity that the recorded failures imply
  std::vector<PolicySpec> allocators;  // to be compared besides the settings
  std::vector<WhatIf> questions;
  unsigned threads = 0;                                                      // 0: one per core
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;  // never called by two threads at once
};

/// The answer to a WhatIf, for the settings that the program ran with.
struct Alternative {
  WhatIf question;
  std::size_t calls = 0;  // of empty_cache that were put in or taken out
  Outcome outcome;
};

struct TuneResult {
  Outcome baseline;                       // what the program ran with, replayed
  std::vector<Outcome> settings;          // ranked; only those that were replayed to their end
  std::vector<Outcome> allocators;        // ranked
  std::vector<Alternative> alternatives;  // as they were asked
  std::uint64_t tried = 0, given_up = 0;  // settings
  bool limited = false;                   // by a capacity
  /// What pinned host memory would take at least if nothing was rounded up; only where the sizes that were recorded are
  /// rounded ones, as in all of PyTorch's histories with its default settings.
  std::optional<Bytes> least_unrounded_peak;

  /// The setting to use; null when none is better.
  const Outcome* recommended() const;
};

/// Why settings were recommended or not, in a sentence or two.
std::string verdict(const TuneResult& result);

/// `heaps`: of one process. `baseline`: what it ran with; its settings are searched when it has any (has_settings()).
/// Errors: an unknown policy or parameter; a question about steps of a trace without any.
Result<TuneResult> tune(std::span<const Prepared> heaps, const PolicySpec& baseline, const TuneOptions& options);

}  // namespace memreel
