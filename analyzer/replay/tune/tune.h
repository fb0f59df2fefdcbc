// SPDX-License-Identifier: Apache-2.0
// Which settings would have needed less memory, and whether empty_cache() is worth calling.
//
// Every answer is a replay. The search has three rounds: each setting alone, combinations of the best of each, and
// refinements of the best of those. The later rounds stop replaying a candidate as soon as it reserves more than the
// best so far, which is exact: peaks only grow. They are skipped if even the lower bound for every allocator is not
// worth having.
#pragma once

#include <functional>
#include <span>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/tune/outcome.h"
#include "formats/model/result.h"

namespace memreel {

// The same program with other calls of empty_cache, or none.

/// A question about what the program might have done differently.
struct WhatIf {
  enum class Kind : std::uint8_t {
    empty_cache_at_steps,   // after every `every`-th step
    empty_cache_at_events,  // after every `every` operations
    empty_cache_at_oom,     // before a request fails, which is then retried
    no_empty_cache,         // without the program's own calls
    policy,                 // with another allocator
  };
  Kind kind = Kind::empty_cache_at_steps;
  std::uint64_t every = 1;
  PolicySpec policy;
  std::string text;  // as given
};

/// "empty_cache@step", "empty_cache@every:10" (steps), "empty_cache@every:5000events", "empty_cache@oom",
/// "no-empty_cache", or a policy. Errors: anything else.
Result<WhatIf> parse_what_if(std::string_view text);

/// `heap` with a call of empty_cache before each of `rows`, ascending; a row may be heap.count(), the end.
Prepared with_empty_cache(const Prepared& heap, std::span<const std::uint32_t> rows);

/// `heap` without the program's calls of empty_cache.
Prepared without_empty_cache(const Prepared& heap);

/// Rows before which a question of kind empty_cache_at_steps or _at_events inserts a call. Empty if the heap has fewer
/// steps or operations.
std::vector<std::uint32_t> rows_of_calls(const Prepared& heap, const WhatIf& question);

/// The number of the program's calls of empty_cache.
std::size_t empty_cache_calls(const Prepared& heap);

struct TuneOptions {
  std::optional<DeviceModel> device;  // default: unlimited, or the capacity implied by the recorded failures
  /// With it, the heaps of a device share a capacity in `device`, and what others held of it in the recording they
  /// keep. None: each heap has it for itself.
  std::optional<Surroundings> around = {};
  bool sets_fraction = false;          // the program set a memory fraction: PyTorch collects garbage only then
  std::vector<PolicySpec> allocators;  // to compare in addition to the settings
  std::vector<WhatIf> questions;
  unsigned threads = 0;  // 0: one per core
  /// Replays end at it, but for the baseline's.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress;  // calls are serialized
};

/// The answer to a WhatIf, for the settings that the program ran with.
struct Alternative {
  WhatIf question;
  std::size_t calls = 0;  // of empty_cache, inserted or removed
  Outcome outcome;
};

struct TuneResult {
  Outcome baseline;                       // the program's own settings, replayed
  std::vector<Outcome> settings;          // ranked; only those replayed to the end
  std::vector<Outcome> allocators;        // ranked
  std::vector<Alternative> alternatives;  // in the order of the questions
  std::uint64_t tried = 0, given_up = 0;  // settings
  std::uint64_t left_out = 0;             // settings, allocators, questions, least capacities: the deadline came first
  bool limited = false;                   // by a capacity
  bool precedes_rules = false;            // precede_rules() of the heaps
  bool ends_in_failure = false;           // the recording does: it does not say what would have been requested next
  /// What was reserved at the peak of the recording, if the baseline does not reproduce it (misses_peak()): to be set
  /// by the caller. Otherwise 0.
  Bytes missed_peak;
  bool missed_samples = false;  // that peak was sampled: the recording has no segments
  /// A lower bound for pinned host memory if nothing was rounded up; only if the recorded sizes are rounded ones, as in
  /// all of PyTorch's histories with its default settings.
  std::optional<Bytes> least_unrounded_peak;

  /// With a limit: the setting that serves every request with least memory; null if those in use need no more.
  const Outcome* fits_in_less() const;
  /// The setting to use; null if none is better.
  const Outcome* recommended() const;
};

/// Why settings were recommended or not, in one or two sentences.
std::string verdict(const TuneResult& result);

/// `heaps`: of one process; those that began late begin afresh. `baseline`: what it ran with; its settings are searched
/// if it has any (has_settings()). Errors: an unknown policy or parameter; a question about steps for a trace without
/// any.
Result<TuneResult> tune(std::span<const Prepared> heaps, const PolicySpec& baseline, const TuneOptions& options);

}  // namespace memreel
