// SPDX-License-Identifier: Apache-2.0
// The outcome of memreel check, of a run or a job, where it was asked for: as text, in documents and in files.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>

#include "analyzer/cli/output.h"
#include "analyzer/gate/gate_outcome.h"

namespace memreel::cli {

/// The files that `memreel check` writes; empty: not asked for.
struct CheckOutputs {
  std::filesystem::path baseline, junit, markdown;
  bool json = false;                   // to standard output
  std::filesystem::path old_baseline;  // that is compared with

  /// Where text goes: to standard error if a file takes standard output.
  std::ostream& text() const;
  /// Whether the new baseline would replace the old.
  bool renew_baseline() const;
};

/// Fails if an output is one of the files that are read, another output, or where the JSON document goes. A new
/// baseline may replace the old.
Result<void> outputs_differ(std::span<const std::filesystem::path> inputs, const CheckOutputs& outputs);

/// "unit", "value", "limit", "passed" and "reason" of a check.
Json json_of_figures(const Check& check);

/// Writes the files. `baseline`: the text of a new one; one that is exceeded stays, or a second attempt would pass.
Result<void> write_outcome(const GateOutcome& outcome, const std::string& baseline, const CheckOutputs& outputs);

/// The table of checks, a line for each that failed or is not judged, and what has been written.
void print_outcome(const GateOutcome& outcome, const CheckOutputs& outputs);

/// Ends a check that could not judge: prints why, and writes it where the outcome was to go, instead of leaving an
/// earlier one there. The baseline stays.
Exit unjudged(const Error& why, const CheckOutputs& outputs, std::string_view subject);

}  // namespace memreel::cli
