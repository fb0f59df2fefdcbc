// SPDX-License-Identifier: Apache-2.0
// The sentences that say why something was found to leak, or not to.
#pragma once

#include "analyzer/analysis/insight/leaks.h"

namespace memreel {

/// The evidence for the finding's verdict, e.g. "60 of 60 steps kept 4 KiB allocated at train.py:41; nothing allocated
/// there was ever freed". Reads all fields except `evidence`; `bytes` and `count` are those of `judged.kept`.
std::string evidence_of(const Trace& trace, const LeakFinding& finding, const Population& population,
                        const Rounds& rounds, const Judged& judged);

/// "60 MiB in 30 allocations at train.py:41 takes the place of what was freed: ...".
std::string evidence_of_replacement(const Trace& trace, const LeakFinding& finding);

/// "100 of 100 calls of the model at eval.py:43 after the last step kept 8 MiB allocated at model.py:33; ...".
std::string evidence_of_calls(const Trace& trace, const LeakFinding& finding, const KeptByCalls& kept,
                              const std::string& line);

}  // namespace memreel
