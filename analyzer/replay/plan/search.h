// SPDX-License-Identifier: Apache-2.0
// Complete search for a placement below a capacity: finds one, or proves that there is none, given enough nodes.
//
// The state is a floor in every section of time: what lies below is decided. A section is open if every buffer that
// could begin at its floor lies flat on floors of that height; the lowest floor always is one. In an open section, one
// of those buffers comes next, or none of them does and the floor rises to the lowest offset at which something can
// (what is between is wasted, which the capacity limits). The section with the fewest ways to go on is branched on
// (Haralick and Elliott, "Increasing tree search efficiency for constraint satisfaction problems", Artificial
// Intelligence 14, 1980), so that what is forced is done first, wherever it lies; most floors are tight on hard
// instances. Filling floors from the lowest position up is the branching of exact methods for perfect rectangle
// packing (Lesh, Marks, McMahon and Mitzenmacher, "Exhaustive approaches to 2D rectangular perfect packings", IPL 90,
// 2004), which a fixed position in time narrows to very few choices.
//
// Cut off are states in which
// - in some section, the buffers that must begin at or above some offset need more than is left above it (the bound of
//   one machine with release times, Carlier, "The one-machine sequencing problem", EJOR 11, 1982),
// - a buffer could sink, because it would rest on no other: only such canonical placements need be tried, and of equal
//   buffers only one order (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
//   Learning", ASPLOS 2023),
// - floors and remaining buffers are those of a state that has failed before.
// Parts that no remaining buffer connects are solved on their own (Moffitt, section 5), and if one of them fails that
// the last decision did not touch, so does every alternative to that decision.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/replay/plan/problem.h"

namespace memreel::plan {

/// Offsets and sizes in multiples of what all sizes are multiples of.
using Units = std::int32_t;

/// What the search asks of a problem again and again. Immutable: several searches share it.
class SearchGraph {
 public:
  /// Bytes of a unit: the greatest common divisor of the sizes.
  static Bytes unit_of(const Problem& problem);
  /// Whether sizes fit in Units and the overlapping pairs in memory.
  static bool suits(const Problem& problem);

  /// `problem` must outlive this object, and suits().
  explicit SearchGraph(const Problem& problem);

 private:
  friend class Search;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  const Problem& problem_;
  std::vector<Units> sizes_;
  std::vector<std::vector<std::uint32_t>> neighbours_;  // by buffer: those alive at the same time
  std::vector<std::vector<std::uint32_t>> alive_;       // by section
  std::vector<std::uint32_t> twin_;                     // by buffer: an equal one, to be placed first; or none
};

class Search {
 public:
  enum class Answer : std::uint8_t { found, impossible, gave_up };

  /// Of the sections with the fewest ways to go on, the one with the least room to waste; or, after what is forced, the
  /// lowest floor on which the buffer ranked first can lie.
  enum class Branching : std::uint8_t { least_room, lowest_floor };

  explicit Search(const SearchGraph& graph);
  Search(Search&&) noexcept;
  Search& operator=(Search&&) noexcept;
  ~Search();

  struct Question {
    Units capacity = 0;
    Branching branching = Branching::least_room;
    std::span<const std::uint32_t> order;  // the buffers, in the order in which alternatives are tried
    std::uint64_t nodes = 0;               // decisions to make at most
    const std::function<bool()>& stop;     // asked at every node
  };

  Answer run(const Question& question);

  /// Of the placement found.
  const std::vector<Units>& offsets() const;
  std::uint64_t nodes_used() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// The least peak, by complete searches of one capacity after another.
//
// How long a search takes depends on luck with its order: most orders find a placement at once or not for hours. So
// many orders are tried with few nodes, then with twice as many, and so on (Gomes, Selman and Kautz, "Boosting
// combinatorial search through randomization", AAAI 1998).

struct SearchLimits {
  /// Sections visited, about: some nanoseconds each.
  std::uint64_t effort = 0;
  /// Finds a placement of at most this peak instead of the least one.
  std::optional<Bytes> capacity = std::nullopt;
  unsigned threads = 1;  // make no difference to the result
  std::function<bool()> stop = [] { return false; };
  /// Told the peak and the bound whenever one of them is better.
  std::function<void(Bytes peak, Bytes bound)> progress = [](Bytes, Bytes) {};
};

/// Improves `best`. Returns a lower bound for every placement: the peak itself if it is proven to be optimal, and more
/// than the capacity if no placement has it. problem.load if the problem is too large for a search.
Bytes search_below(const Problem& problem, Placement& best, const SearchLimits& limits);

}  // namespace memreel::plan
