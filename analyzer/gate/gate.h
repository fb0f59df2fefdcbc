// SPDX-License-Identifier: Apache-2.0
// Budgets and baselines: does a run need more memory than allowed, or than before?
#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <span>
#include <variant>

#include "analyzer/gate/measured.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

/// The limits of a run, on each device.
struct Budgets {
  std::optional<Bytes> max_peak;            // live bytes
  std::optional<Bytes> max_reserved;        // for each policy
  std::optional<Bytes> max_leaked;          //
  std::optional<double> max_fragmentation;  // at the reserved peak, for each policy; 0 to 1
  std::map<Category, Bytes> max_category;   // live bytes of each, at its own peak
  bool all_served = false;                  // no request may fail

  bool any() const {
    return max_peak || max_reserved || max_leaked || max_fragmentation || !max_category.empty() || all_served;
  }
};

/// A number of pool errors (pool_errors.h).
struct ErrorCount {
  std::uint64_t count = 0;

  friend auto operator<=>(const ErrorCount&, const ErrorCount&) = default;
};

struct RankCount {
  std::uint64_t count = 0;

  friend auto operator<=>(const RankCount&, const RankCount&) = default;
};

/// How many times another figure one is.
struct Ratio {
  double times = 0;

  friend auto operator<=>(const Ratio&, const Ratio&) = default;
};

/// A judged metric: memory, a share of 1, a number of requests, of errors or of ranks, a ratio.
using Metric = std::variant<Bytes, double, std::uint64_t, ErrorCount, RankCount, Ratio>;

/// What a check is about.
enum class CheckOf : std::uint8_t { device, rank, all };

struct Check {
  std::string name;    // "max-reserved", "baseline peak-live"
  std::string policy;  // empty: applies to every policy
  CheckOf of = CheckOf::device;
  std::int32_t number = 0;  // of the device, -1 being host memory; of the rank
  Metric value, limit;
  std::optional<std::pair<Bytes, Bytes>> late_range;  // of a value that a late start leaves open; the most is judged
  std::string reason;    // one line on what was exceeded, by how much, and where most was held or grew; empty: nothing
  std::string unjudged;  // "leaks of device 0, not judged: ..."; empty: it is judged

  /// Whatever could not be judged.
  bool failed() const { return !reason.empty(); }
  bool judged() const { return failed() || unjudged.empty(); }
  bool passed() const { return !failed() && judged(); }
};

/// One check per budget, device and policy that it concerns.
std::vector<Check> check_budgets(const Measured& now, const Budgets& budgets);

/// "valid", of all own pools: none of them was misused.
Check check_valid(const Tables& tables, std::span<const PoolError> errors);

/// Check::unjudged of the checks whose names begin so, each once.
std::vector<std::string> unjudged_in(std::span<const Check> checks, std::string_view name = {});

/// What `now` has and `before` lacks, so that it can't be compared: "device 1", "torch.native on device 0".
std::vector<std::string> not_in_baseline(const Measured& now, const Measured& before);

/// What `before` has and `now` lacks, so that it can't be compared: "device 1", "heap sim.arena on device 0",
/// "40 steps on device 0: there are 3". Nothing of what an older baseline does not say.
std::vector<std::string> not_in_run(const Measured& now, const Measured& before);

/// `before`, with what it says of its own settings said of those of `now`: they are compared, whatever they are.
Measured under_settings_of(const Measured& now, Measured before);

/// `bytes` and this share of them. They come from a file, so the sum may be more than fits: then 8 EiB.
Bytes with_tolerance(Bytes bytes, double tolerance);

/// No metric may exceed its previous value by more than `tolerance`: a share of it or, for fragmentation, percentage
/// points (0.01 is one). Does not judge policies and devices that only one side has.
std::vector<Check> check_baseline(const Measured& now, const Measured& before, double tolerance);

/// "6.02 GiB", "13.7 %", "3 requests", "1.20".
std::string text_of(const Metric& metric);
/// "bytes", "share", "requests", "errors", "ranks", "ratio".
std::string_view unit_of(const Metric& metric);

// The file that a run is compared with: JSON that is easy to read and to diff, one metric per line.

std::string baseline_text(const Measured& measured);

/// `where`: the file name used in errors.
Result<Measured> parse_baseline(std::string_view text, const std::string& where);

Result<Measured> read_baseline(const std::filesystem::path& file);

}  // namespace memreel
