// SPDX-License-Identifier: Apache-2.0
// The leaks part of `memreel report`: its options, text and JSON.
#pragma once

#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/report.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel::cli {

struct LeakArguments {
  std::vector<std::string> suppress;      // "leak:PATTERN"
  std::vector<std::string> suppressions;  // files
  std::string capacity;
};

/// Adds `--suppress` and `--suppressions`.
void add_suppression_options(CLI::App& command, LeakArguments& arguments);
/// Adds the same options and `--capacity`.
void add_leak_options(CLI::App& command, LeakArguments& arguments);

/// Fails on an invalid suppression or size, and on unreadable files.
Result<LeakOptions> leak_options(const LeakArguments& arguments);

/// Sets `leaks`, `leak_causes`, `leak_steps` and `suppressed` in the document.
void add_leaks(Json& document, const Trace& trace, const LeakReport& leaks, bool allocations);

void print_leaks_text(const Trace& trace, const LeakReport& leaks, const ReportOptions& options);

}  // namespace memreel::cli
