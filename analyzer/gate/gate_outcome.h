// SPDX-License-Identifier: Apache-2.0
// What a gate found, for those who read it: a build server, a reviewer.
#pragma once

#include "analyzer/gate/gate.h"

namespace memreel {

struct GateOutcome {
  std::string subject;  // what was judged, e.g. the trace
  std::vector<Check> checks;
  bool is_of_job = false;  // of its ranks, not of devices

  /// Whether nothing exceeds its limit, as far as it could be judged.
  bool passed() const;
};

/// "complete", of what is judged in part only. `missing`: in a few words each, at least one.
Check incomplete(std::span<const std::string> missing);

/// What is exceeded, or why it is not judged; empty: it passed.
const std::string& reason_of(const Check& check);

/// A JUnit document: one test case per check; what is not judged is skipped.
std::string junit_of(const GateOutcome& outcome);
/// Of what could not be judged: an error, which is no failure and no success.
std::string junit_of(const Error& why, std::string_view subject);

/// A pull-request comment: a table of all checks, and a line for each that failed or is not judged.
std::string markdown_of(const GateOutcome& outcome);
std::string markdown_of(const Error& why);

/// What a check is about, below "device" or "rank": "0", "host"; empty: all.
std::string number_text(const Check& check);

}  // namespace memreel
