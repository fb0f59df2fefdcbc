// Who holds more at one moment than at another, of the same trace or of two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/difference/purposes.h"
#include "viewer/model/background.h"
#include "viewer/model/classification.h"
#include "viewer/model/document.h"
#include "viewer/model/filter.h"

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
  StackId stack_a = StackId::none, stack_b = StackId::none;  // of either's tables; none where it has no such stack
  std::string label;
  std::uint64_t bytes_a = 0, bytes_b = 0, count_a = 0, count_b = 0;

  std::int64_t change() const { return static_cast<std::int64_t>(bytes_b - bytes_a); }
};

/// Live bytes of one category that one layer made, or a line of the program outside of layers.
struct PlaceChange {
  Category category = Category::unknown;
  std::string place;
  Bytes a, b;

  std::int64_t change() const { return static_cast<std::int64_t>(b.count - a.count); }
};

/// What a heap was like: of instants then and up to then, of traces in all.
struct SideFacts {
  Bytes reserved;              // then; of a trace at its reserved peak
  Bytes live;                  // then
  double fragmentation = 0;    // then: the share of what is reserved that is not in use
  std::uint64_t failures = 0;  // requests
  std::uint64_t driver_calls = 0;

  friend bool operator==(const SideFacts&, const SideFacts&) = default;
};

/// `whole`: of all of its trace, not up to the moment.
SideFacts facts_of(const Moment& moment, bool whole);

struct Comparison {
  SideFacts facts_a, facts_b;
  Bytes listed_a, listed_b;          // held by stacks that pass, changed or not
  std::vector<StackChange> changes;  // the largest first, either way
  // Where both traces are classified, else empty. As `memreel diff` says it (analyzer/difference/purposes.h); the
  // largest first, either way.
  std::vector<CategoryChange> categories;
  std::vector<PlaceChange> places;
};

/// What is known of the allocations of two moments; null: nothing.
struct ClassificationPair {
  std::shared_ptr<const Classification> a, b;
  friend bool operator==(const ClassificationPair&, const ClassificationPair&) = default;
};

/// What two moments are limited to, by one filter; null: nothing limits them.
struct SievePair {
  std::shared_ptr<const Sieve> a, b;
  friend bool operator==(const SievePair&, const SievePair&) = default;
};

/// Stacks of two traces are matched as `memreel diff` does (analyzer/difference/stack_match.h). Of what `sieves` limit
/// a pair of stacks passes where either has the text: a line that moved is another in the other trace. Facts are of
/// all, and `categories` of each category. None when cancelled.
std::optional<Comparison> compare(const MomentPair& moments, const ClassificationPair& known, const SievePair& sieves,
                                  const Progress& progress);

/// The heap of `other` that stands for `heap`: of the same device, level and name, else of the same device and level;
/// none when there is neither.
HeapId counterpart(const Document& document, HeapId heap, const Document& other);

}  // namespace memreel::viewer
