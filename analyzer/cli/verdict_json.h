// The value of `verdict` in a report.
#pragma once

#include "analyzer/cli/json.h"
#include "analyzer/verdict/verdict.h"

namespace memreel::cli {

Json json_of_verdict(const Tables& tables, const Verdict& verdict);

}  // namespace memreel::cli
