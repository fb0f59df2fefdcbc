// SPDX-License-Identifier: Apache-2.0
// What would have needed less memory or survived, found by replay.
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/tune/outcome.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

enum class RemedyKind : std::uint8_t {
  setting,     // of the recorded allocator
  allocator,   // another allocator
  one_stream,  // one stream for everything
};

/// "setting", "allocator", "one_stream".
std::string_view name_of(RemedyKind kind);

/// One change from the recorded run.
struct Remedy {
  RemedyKind kind = RemedyKind::setting;
  std::string text;  // "expandable_segments:True", "cuda.async", "one stream for everything"
  Outcome outcome;
};

struct Remedies {
  std::vector<Prepared> heaps;       // what was replayed: one process's, of one kind of allocator
  std::vector<DeviceModel> devices;  // on which: of each heap
  bool is_torch = false;
  bool as_recorded = false;    // `heaps` are all that prepare() finds of PyTorch, unchanged
  bool began_late = false;     // the recording: where other settings would have placed older memory is not known
  bool sets_fraction = false;  // a limit of the program's own refused
  Outcome baseline;            // as the program ran; empty for allocators other than PyTorch's, where it is unknown
  Bytes baseline_peak;         // its reserved peak; if unknown, the recorded one
  std::vector<Remedy> tried;   // fewest failures first; then by bytes saved or, if requests fail, by familiarity, and
                               // the least specific values: 128 before 300; of a late recording, of which no request
                               // fails, the first usable one has its range (Outcome::late)
  std::uint64_t left_out = 0;  // candidates not replayed, or not to the end, because the trace is long
  /// The same devices with the least memory that they can have had; empty if the capacity is known.
  std::vector<DeviceModel> least_devices;
  /// The most failures of the first usable one of `tried`, over the capacities at which the recorded settings fail as
  /// often as they did; none if the capacity is known, or the trace is long.
  std::optional<std::uint64_t> most_failures;

  /// Whether requests can fail in a replay: some device's capacity is known.
  bool is_limited() const {
    return std::ranges::any_of(devices, [](const DeviceModel& of) { return of.kind == DeviceModel::Kind::capacity; });
  }

  /// Whether the program can use it: a setting of its allocator, or an allocator that needs no change of the program.
  bool is_usable(const Remedy& remedy) const {
    return remedy.kind == RemedyKind::setting || (!is_torch && remedy.outcome.policy.name == "cuda.async");
  }

  /// Bytes of the peak that a remedy saves; negative if it needs more: of PyTorch's settings, at least that much, as
  /// its replay ends there.
  std::int64_t gives_back(const Remedy& remedy) const {
    return static_cast<std::int64_t>(baseline_peak.count - remedy.outcome.peak_reserved().count);
  }
};

/// Offsets made in advance for all that is alive in one step, for a program that repeats it.
struct StepPlan {
  std::uint64_t step = 0;  // from 1 on
  std::uint64_t allocations = 0;
  Bytes peak, bound;     // of the plan; none needs less than the bound
  Bytes least_reserved;  // the lowest reserved peak of an allocator, in all of the recording
  std::string least_by;  // its remedy; empty: as recorded

  /// The share of `least_reserved` that the plan saves; negative if it needs more.
  double saves() const { return 1 - static_cast<double>(peak.count) / static_cast<double>(least_reserved.count); }
};

/// A plan of the step in which most is alive, in the heap that holds most; about a tenth of a second. None if
/// that is in no step that the program marked, or if it is too large a step.
std::optional<StepPlan> plan_peak_step(const Remedies& remedies);

/// A plan has to save more than this to be worth a word: no program gets its memory without a margin.
inline constexpr double step_plan_margin = 0.02;

/// The replay budget: rows of the trace times candidates. About two seconds on two cores.
inline constexpr std::uint64_t remedy_rows = 30'000'000;

/// What is to be replayed, at the capacity implied by the recorded failures, else without a limit; nothing is tried
/// yet. `capacity`: of each device, where the caller knows it. Otherwise of a pool that states its maximum (setting
/// "limit"), that; its own parameters are then tried, too.
Remedies untried_remedies(const Trace& trace, std::optional<Bytes> capacity = {});

/// Replays untried remedies: PyTorch's settings one by one with
/// the likeliest values first, the program on one stream, and the lower bound for every allocator; for other pools, the
/// allocators that replace them. Replays fewer candidates for long traces, as `rows` allows, but always the first, and
/// begins none after ten seconds. Begins anew when called again, as after running out of memory.
///
/// Tries nothing without a history, for programs that take their memory from the driver without a pool, and where a
/// replay of the recorded settings misses what was sampled. Any thread may call `on_progress`, after each replay.
void replay_remedies(const Trace& trace, std::span<const HeapHistory> histories, Remedies& remedies,
                     std::uint64_t rows = remedy_rows, unsigned threads = 0,
                     const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

/// What PyTorch's empty_cache() just before the recording would have saved of the peak of a heap that began late, by a
/// replay: what it gives back may be asked for again, and what is left may be in pieces.
Bytes saved_by_release(const Trace& trace, HeapId heap);

/// The maximum that a pool's own log states; none for PyTorch's.
std::optional<Bytes> stated_limit(const Prepared& heap);

/// What a remedy does with another history of a heap, up to the first request that fails but did not fail in the
/// recording.
ReplayResult replay_with(const Remedy& remedy, const Prepared& heap, const DeviceModel& device);

/// Whether a request that failed in the recording (event `failure` of `heap`) is served in a replay, and no earlier one
/// fails that did not fail in the recording. `recorded`: events of the recorded failures, ascending.
bool survives(const Outcome& outcome, HeapId heap, std::uint32_t failure, std::span<const std::uint32_t> recorded);

}  // namespace memreel
