// SPDX-License-Identifier: Apache-2.0
// The effect of a setting or an allocator on a whole process, and the ranking of several.
#pragma once

#include "analyzer/replay/beginning.h"

namespace memreel {

/// One policy on every heap of a process. A setting applies to the process, so its worst device counts.
struct Outcome {
  PolicySpec policy;        // with every parameter
  std::size_t changes = 0;  // parameters that differ from what the program ran with
  bool best_known =
      false;  // the only change is expandable_segments:True, which users know and which has no value to choose
  bool every_release = true;  // every supported PyTorch release has its settings, or the program's own release does
  std::vector<ReplayResult> heaps;
  std::optional<Bytes> min_capacity;   // of the worst device; only for the best few, if a capacity was given
  std::optional<BeginningRange> late;  // of the best few, on a recording that began late: its peak
  /// With `late`: the least and the most that it saves of the baseline's peak with the same beginning.
  std::optional<std::pair<std::int64_t, std::int64_t>> late_saved;

  /// The result of the device with the highest reserved peak.
  const ReplayResult& worst() const;
  Bytes peak_reserved() const { return worst().peak_reserved; }
  /// The least and the most that it saves of a baseline's peak; negative: it needs more.
  std::pair<std::int64_t, std::int64_t> saved_of(Bytes baseline_peak) const {
    const auto saved = static_cast<std::int64_t>(baseline_peak.count - peak_reserved().count);
    return late_saved.value_or(std::pair(saved, saved));
  }
  /// The peak by which it is ranked.
  Bytes ranked_peak() const;
  DriverCalls driver_calls() const;  // of all devices
  double driver_seconds() const;     // their cost on an H200
  std::uint64_t failures() const;
  /// The failure with the lowest event index.
  const ReplayFailure* first_failure() const;
  bool gave_up() const;
};

/// Peaks that differ by less count as equal; then driver calls and simplicity decide.
inline constexpr double peak_margin = 0.01;

/// What a setting that not every release has must save beyond one that every release has, as a share of the peak.
inline constexpr double release_margin = 0.05;

/// What an outcome must save to be recommended to a program that works without it, as a share of the peak.
inline double worthwhile_share(const Outcome& outcome) { return outcome.every_release ? peak_margin : release_margin; }

/// " (2.11+)": what a table adds to a setting that not every release has, by which it is ranked lower; else empty.
std::string release_mark(const Outcome& outcome);

/// Puts the best first.
/// - Outcomes that serve every request precede the others, which follow by number of failures; of those with as many,
///   what every release has, the fewest changes, the best known, the least specific values (search_space.h).
/// - Without a limit: by reserved peak, to which release_margin is added for settings that not every release has.
///   A limit must be kept, not undercut: with one, peaks don't count.
/// - Ties are broken by what every release has, the lowest cost of driver calls, the fewest changes, the best known,
///   the least specific values, the lowest peak.
void rank(std::vector<Outcome>& outcomes, bool limited);

/// Whether a replay misses the recorded peak by more than peak_margin. It then says nothing about other settings.
/// `is_unsure`: whether that is to be asked. If the recording began late, what was cached before is not in the replay,
/// or placed otherwise; if it has samples instead of segments, nothing else shows that the replay does what the program
/// did.
bool misses_peak(bool is_unsure, Bytes replayed, Bytes recorded);

/// Sets `late` of outcomes and what they save of the first of them, by for_each_beginning(). `recorded`: the heaps that
/// they are of; nothing if none is late.
void find_late_ranges(std::span<Outcome* const> outcomes, std::span<const Prepared> recorded,
                      const ReplayOptions& options);

/// The share of `before` that `after` saves; negative if it is more.
double saved_share(Bytes before, Bytes after);

}  // namespace memreel
