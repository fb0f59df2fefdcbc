// SPDX-License-Identifier: Apache-2.0
// The table of advice: what to try for each kind of failure and each framework.
#pragma once

#include <utility>

#include "analyzer/analysis/explain/answer.h"

namespace memreel::explain {

/// Whether the text's name begins with `texts`: "torch", "torch.mps".
bool is_family(const Failure& failure, std::string_view texts);

/// What to try first, and what else, if anything.
std::pair<Advice, Advice> usual_advice(const Failure& failure);

}  // namespace memreel::explain
