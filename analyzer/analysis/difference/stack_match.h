// SPDX-License-Identifier: Apache-2.0
// Matches the stacks of two recordings, even if the program was loaded elsewhere or edited in between.
#pragma once

#include <span>

#include "formats/model/tables.h"
#include "formats/model/units.h"

namespace memreel {

/// Live memory of one kind, in requested bytes.
struct Holding {
  Bytes bytes;
  std::uint64_t count = 0;

  friend bool operator==(const Holding&, const Holding&) = default;
};

/// What each stack of both sides holds, by StackId.
struct HeldByStack {
  std::span<const Holding> a, b;
};

/// A stack of either table; StackId::none if the other has no counterpart.
using StackPair = std::pair<StackId, StackId>;

/// Pairs the stacks `a` of `tables_a` with the stacks `b` of `tables_b`, each without duplicates. Every stack is in
/// exactly one pair.
///
/// Equal stacks are paired first: the same functions, files and lines from the innermost frame to the outermost; for
/// native frames without symbols, the same offsets in modules of the same name. Of the rest, those that differ only in
/// line numbers, offsets and the directories of files are paired, in the order of their lines: a call above another in
/// the source is still above it after most edits. Addresses never matter.
///
/// If it is known what they hold, and lines came or went, those that hold as much as before are paired before the
/// others. Of what is left then, stacks are paired that differ in the text of a notebook's cell, if they hold the same
/// or nothing else comes into question, and at last what the same function requested, in the same file and with the
/// same operation, if it holds the same.
std::vector<StackPair> match_stacks(const Tables& tables_a, std::span<const StackId> a, const Tables& tables_b,
                                    std::span<const StackId> b, const HeldByStack& held = {});

}  // namespace memreel
