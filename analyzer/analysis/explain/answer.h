// SPDX-License-Identifier: Apache-2.0
// What a failure means and what to do about it, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {

/// What to try first, and what that costs.
struct Advice {
  std::string_view what;
  std::string_view side_effects;  // empty: none that are known
};

struct Answer {
  std::vector<Advice> advice;  // the first is the one to try first; never empty
  std::string record;          // the command that would record what the text can't say
  std::string_view unknown;    // what the text can't say
};

Answer answer_to(const Failure& failure);

/// The failure in at most five lines, each ending with a line feed. `name`: of the log. `unicode`: draw the bar with
/// block characters of UTF-8 instead of ASCII.
std::string text_of(const Failure& failure, std::string_view name, bool unicode);

/// The page docs/errors.md: each text as people search for it, and what it means.
std::string errors_page();

}  // namespace memreel::explain
