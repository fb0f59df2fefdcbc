// SPDX-License-Identifier: Apache-2.0
// Budgets and baselines for a whole job.
#pragma once

#include <set>

#include "analyzer/fleet/fleet.h"
#include "analyzer/gate/gate.h"
#include "formats/model/result.h"

namespace memreel {

struct FleetBudgets {
  std::optional<Bytes> max_reserved;    // of any rank
  std::optional<Bytes> max_p99;         // that 99 % of ranks stay within
  std::optional<double> max_imbalance;  // the highest peak over the mean
  std::optional<Bytes> min_headroom;    // of any rank
  std::optional<Bytes> max_leaked;      // of any rank
  bool all_fit = false;                 // no rank may need more than its device has

  bool any() const { return max_reserved || max_p99 || max_imbalance || min_headroom || max_leaked || all_fit; }
};

/// One check per budget. Errors: headroom is judged, but that of some rank is unknown; nothing could be read.
Result<std::vector<Check>> check_fleet(const Fleet& fleet, const FleetBudgets& budgets);

/// The peak of each class, by its ranks.
struct FleetBaseline {
  struct Class {
    std::vector<std::uint32_t> ranks;
    Bytes peak_reserved;

    friend bool operator==(const Class&, const Class&) = default;
  };
  std::string heap;  // the only one that was judged; empty: what each program requested
  std::vector<Class> classes;

  friend bool operator==(const FleetBaseline&, const FleetBaseline&) = default;
};

FleetBaseline baseline_of(const Fleet& fleet);

/// JSON that is easy to read and to diff.
std::string text_of(const FleetBaseline& baseline);
/// `where`: the file's name, for errors.
Result<FleetBaseline> parse_fleet_baseline(std::string_view text, const std::string& where);

/// What of a job can't be judged: memory that can't be seen is within no budget.
struct FleetGaps {
  std::set<std::uint32_t> ranks;
  std::vector<std::string> texts;  // in a few words each: "ranks 2, 3 are missing: no recording"
};

/// Ranks that are missing or known in part only; with a baseline, also ranks that only it has; with a budget for leaks,
/// also ranks whose leaks can't be judged. A duplicate is not judged.
FleetGaps gaps_of(const Fleet& fleet, const FleetBudgets& budgets, const std::optional<FleetBaseline>& before);

/// "complete", of all ranks. `allowed`: what is missing is not judged, which is no failure.
Check check_complete(const Fleet& fleet, const FleetGaps& gaps, bool allowed);

/// No rank of a class may reserve more than the class's previous maximum by more than `tolerance`, a share of it. Ranks
/// missing now are not judged, which gaps_of() says; ranks missing in the baseline fail a check.
std::vector<Check> check_fleet(const Fleet& fleet, const FleetBaseline& before, double tolerance);

}  // namespace memreel
