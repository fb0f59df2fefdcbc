// Verdicts, each in one sentence.
#pragma once

#include <string>

#include "analyzer/insight/leaks.h"

namespace memreel {

/// The evidence for the finding's verdict, e.g. "60 of 60 steps kept 4 KiB allocated at train.py:41; nothing allocated
/// there was ever freed". Reads all fields except `evidence`.
std::string evidence_of(const Trace& trace, const LeakFinding& finding, const Population& population,
                        const Intervals& intervals);

}  // namespace memreel
