// The part of `memreel report` about leaks: its options, its text, its JSON.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "analyzer/cli/json.h"
#include "analyzer/cli/report.h"
#include "analyzer/insight/leaks.h"

namespace memreel::cli {

struct LeakArguments {
  std::vector<std::string> suppress;      // "leak:PATTERN"
  std::vector<std::string> suppressions;  // files
  std::string capacity;
};

/// `--suppress` and `--suppressions`.
void add_suppression_options(CLI::App& command, LeakArguments& arguments);
/// These and `--capacity`.
void add_leak_options(CLI::App& command, LeakArguments& arguments);

/// Fails on a suppression or a size that is none, and on files that can't be read.
Result<LeakOptions> leak_options(const LeakArguments& arguments);

/// Sets `leaks`, `leak_causes`, `leak_steps` and `suppressed` in the document.
void add_leaks(Json& document, const Trace& trace, const LeakReport& leaks, bool allocations);

void print_leaks_text(const Trace& trace, const LeakReport& leaks, const ReportOptions& options);

}  // namespace memreel::cli
