// Verdicts in one sentence each.
#pragma once

#include <string>

#include "analyzer/insight/leaks.h"

namespace memreel {

/// What speaks for the finding's verdict, e.g. "60 of 60 steps kept 4 KiB allocated at train.py:41; nothing allocated
/// there was ever freed". All fields but `evidence` are read.
std::string evidence_of(const Trace& trace, const LeakFinding& finding, const Population& population,
                        const Intervals& intervals);

}  // namespace memreel
