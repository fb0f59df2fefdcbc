// SPDX-License-Identifier: Apache-2.0
// The answer about a job in sentences, for everything that shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/fleet/fleet.h"

namespace memreel {

/// Who ran out of memory, how many ranks are there, which are missing or known in part, how many classes.
std::string headline_of(const Fleet& fleet);

/// "rank 6 (pp 1, node100, GPU 6): least headroom...". Empty: nothing can be judged.
std::string decision_of(const Fleet& fleet);

/// "rank 6 first: out of memory...". Empty: none fails.
std::string first_failure_of(const Fleet& fleet);

/// The ranks of rows, ascending.
std::vector<std::uint32_t> ranks_of(const Fleet& fleet, const std::vector<std::uint32_t>& rows);

/// At most `most` bytes, with an ellipsis; characters stay whole.
std::string shortened(std::string text, std::size_t most);

/// "rank 5", "ranks 0-3, 5": their numbers take at most `most` bytes.
std::string ranks_text(const std::vector<std::uint32_t>& ranks, std::size_t most = std::string::npos);

}  // namespace memreel
