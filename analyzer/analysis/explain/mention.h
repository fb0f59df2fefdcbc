// SPDX-License-Identifier: Apache-2.0
// Whether a line only mentions an error: source code, a test's name, prose.
#pragma once

#include <cstddef>
#include <string_view>

namespace memreel::explain {

/// Whether the text between `begin` and `end` is in source code, in a test that passed, in a compiler's warning or in
/// a commit's subject. If it is vague, also whether it counts errors that did not occur, or people write about it.
/// `line` may be several that belong together; no more than a few hundred bytes around the text are looked at.
bool is_only_mentioned(std::string_view line, std::size_t begin, std::size_t end, bool vague);

}  // namespace memreel::explain
