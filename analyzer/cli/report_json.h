// The value of `verdict` in a report.
#pragma once

#include "analyzer/analysis/verdict.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/report.h"

namespace memreel::cli {

Json json_of_verdict(const Tables& tables, const Verdict& verdict);

// The values of `fragmentation` and `ooms` in a report.

Json json_of_fragmentation(const Trace& trace, const Report& report);
Json json_of_ooms(const Trace& trace, const Report& report);

/// The value of `oom_setting`: the setting that serves the most failed requests; null if none serves any.
Json json_of_oom_setting(const Report& report);

}  // namespace memreel::cli
