// The few sentences that a report comes down to.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/report.h"

namespace memreel::cli {

struct Headline {
  bool alarm = false;  // a leak or a failure
  std::string text;    // with names from the trace in it: to be escaped
};

/// Most urgent first; never empty.
std::vector<Headline> headlines(const Trace& trace, const Report& report);

}  // namespace memreel::cli
