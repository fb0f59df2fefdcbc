// SPDX-License-Identifier: Apache-2.0
// Who holds more at one moment than at another, of the same trace or of two.
#pragma once

#include <memory>

#include "analyzer/analysis/difference/instant.h"
#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {

/// The state of a heap after `event` events.
struct Moment {
  std::shared_ptr<const Document> document;
  HeapId heap = HeapId::none;
  std::uint32_t event = 0;

  friend bool operator==(const Moment&, const Moment&) = default;
};

struct MomentPair {
  Moment a, b;
  friend bool operator==(const MomentPair&, const MomentPair&) = default;
};

/// Live bytes that were allocated with one stack.
struct StackChange {
  StackId stack_a = StackId::none, stack_b = StackId::none;  // in each side's tables; none if it has no such stack
  std::string label;
  std::uint64_t bytes_a = 0, bytes_b = 0, count_a = 0, count_b = 0;

  std::int64_t change() const { return static_cast<std::int64_t>(bytes_b - bytes_a); }
};

/// Live bytes of one category made by one layer, or by a line of the program outside layers.
struct PlaceChange {
  Category category = Category::unknown;
  std::string place;
  Bytes a, b;

  std::int64_t change() const { return static_cast<std::int64_t>(b.count - a.count); }
};

/// Facts about a heap: for an instant, at it and up to it; for a whole trace, overall.
struct SideFacts {
  Bytes reserved;              // then; of a trace at its reserved peak
  Bytes live;                  // then
  double fragmentation = 0;    // then: the share of reserved bytes that is not in use
  std::uint64_t failures = 0;  // requests
  std::uint64_t driver_calls = 0;

  friend bool operator==(const SideFacts&, const SideFacts&) = default;
};

/// `whole`: for the whole trace, not up to the moment.
SideFacts facts_of(const Moment& moment, bool whole);

struct Comparison {
  SideFacts facts_a, facts_b;
  Bytes listed_a, listed_b;          // held by matching stacks, changed or not
  std::vector<StackChange> changes;  // largest first, in either direction
  // Empty unless both traces are classified. As in `memreel diff` (analyzer/analysis/difference/instant.h); largest
  // first, in either direction.
  std::vector<CategoryChange> categories;
  std::vector<PlaceChange> places;
};

/// The classifications of two moments; null: none.
struct ClassificationPair {
  std::shared_ptr<const Classification> a, b;
  friend bool operator==(const ClassificationPair&, const ClassificationPair&) = default;
};

/// One filter applied to two moments; null: no filter.
struct SievePair {
  std::shared_ptr<const Sieve> a, b;
  friend bool operator==(const SievePair&, const SievePair&) = default;
};

/// Matches stacks of two traces as `memreel diff` does (analyzer/analysis/difference/stack_match.h). A pair of stacks
/// passes `sieves` if either has the text, because a moved line has another number in the other trace. Facts cover all
/// memory, and `categories` every category. None when cancelled.
std::optional<Comparison> compare(const MomentPair& moments, const ClassificationPair& known, const SievePair& sieves,
                                  const Progress& progress);

/// The heap of `other` that corresponds to `heap`: with the same device, level and name, else the same device and
/// level; none if there is neither.
HeapId counterpart(const Document& document, HeapId heap, const Document& other);

}  // namespace memreel::viewer
