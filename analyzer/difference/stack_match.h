// SPDX-License-Identifier: Apache-2.0
// Matches the stacks of two recordings, even if the program was loaded elsewhere or edited in between.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "formats/model/tables.h"

namespace memreel {

/// A stack of either table; StackId::none if the other has no counterpart.
using StackPair = std::pair<StackId, StackId>;

/// Pairs the stacks `a` of `tables_a` with the stacks `b` of `tables_b`, each without duplicates. Every stack is in
/// exactly one pair.
///
/// Equal stacks are paired first: the same functions, files and lines from the innermost frame to the outermost; for
/// native frames without symbols, the same offsets in modules of the same name. Of the rest, those that differ only in
/// line numbers, offsets and the directories of files are paired, in the order of their lines: a call above another in
/// the source is still above it after most edits. Addresses never matter.
std::vector<StackPair> match_stacks(const Tables& tables_a, std::span<const StackId> a, const Tables& tables_b,
                                    std::span<const StackId> b);

}  // namespace memreel
