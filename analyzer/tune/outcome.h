// What a setting or an allocator makes of a whole process, and which of several is best.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/replay/replay.h"
#include "analyzer/replay/unit_costs.h"

namespace memreel {

/// One policy on every heap of a process. A setting is the process's, so it is judged by its worst device.
struct Outcome {
  PolicySpec policy;        // with every parameter
  std::size_t changes = 0;  // parameters that differ from what the program ran with
  bool best_known =
      false;  // the only change is expandable_segments:True, which users know and which has no value to choose
  std::vector<ReplayResult> heaps;
  std::optional<Bytes> min_capacity;  // of the worst device; of the best few, when a capacity was asked for

  /// That of the device with the highest reserved peak.
  const ReplayResult& worst() const;
  Bytes peak_reserved() const { return worst().peak_reserved; }
  DriverCalls driver_calls() const;  // of all devices
  double driver_seconds() const;     // what they cost on an H200
  std::uint64_t failures() const;
  /// The failure with the smallest event.
  const ReplayFailure* first_failure() const;
  bool gave_up() const;
};

/// Peaks that differ by less are as good as equal: then what counts are driver calls and simplicity.
inline constexpr double peak_margin = 0.01;

/// Puts the best first.
/// - Those that serve every request come before the others, which follow by the number of their failures.
/// - Without a limit: by reserved peak. With one it has to be kept, not undercut: peaks don't count.
/// - Among those that this leaves equal: the driver calls cost least, the fewest changes, the best known, the lowest
///   peak.
void rank(std::vector<Outcome>& outcomes, bool limited);

/// Share of `before` that `after` does without; negative when it is more.
double saved_share(Bytes before, Bytes after);

}  // namespace memreel
