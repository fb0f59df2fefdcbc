// SPDX-License-Identifier: Apache-2.0
// Plans made buffer by buffer, each placed once: greedily, or in the order of requests.
#pragma once

#include <span>
#include <vector>

#include "analyzer/replay/plan/problem.h"

namespace memreel::plan {

// Finds free offsets over a time span among buffers that are already placed.
//
// Time is cut into blocks of some hundred arrivals and departures each. What is taken during a lifetime is the union of
// - what lasts throughout the block in which the lifetime begins, or throughout a group of blocks around it,
// - what arrives or departs in the blocks in which it begins and ends, as far as it overlaps the lifetime,
// - what arrives in the blocks between: a segment tree over the blocks.
// Packed buffers touch each other, so a union of thousands is a few runs, and a query scans half a dozen lists of them.
// Only those that arrive or depart in two blocks are examined one by one.

/// Which of the large enough gaps to take.
enum class Fit : std::uint8_t {
  smallest,  // ties go to the lowest; the room above everything counts as the largest
  lowest,
};

class GapIndex {
 public:
  /// For the lifetimes of `problem`, which only the constructor accesses. Blocks of more than one section have
  /// `most_edges` arrivals and departures: the more, the fewer lists there are, and the more pieces are examined one by
  /// one.
  explicit GapIndex(const Problem& problem, std::uint32_t most_edges = 512);

  /// An offset at which `size` bytes are free throughout `lifetime`.
  Bytes find(Lifetime lifetime, Bytes size, Fit fit);

  /// The number of runs and gaps examined so far: a machine-independent measure of time.
  std::uint64_t effort() const { return effort_; }

  /// Takes the result of find(). Gaps below `least`, which no later buffer can use, may be dropped.
  void take(Lifetime lifetime, Bytes offset, Bytes size, Bytes least);

  struct Run {
    Bytes begin, end;
  };

 private:
  /// Ascending and not adjacent.
  struct Runs {
    std::vector<Run> list;
    Bytes sum;  // of their lengths
  };

  struct Piece {
    Run run;
    Lifetime lifetime;
  };

  struct Block {
    bool is_one_section = false;
    Runs through;                // neither arrive nor depart in the block
    std::vector<Piece> partial;  // arrive or depart in it, by offset, unless
    Runs edges;                  // the block is one section, which all of them last throughout
  };

  void add_partial(std::uint32_t block, Lifetime lifetime, Run run, Bytes least);
  void collect(const Runs& runs);
  void collect_partial(const Block& block, Lifetime lifetime, Runs& merged);

  static void add(Runs& runs, Run run, Bytes least);
  void gaps_between(std::span<const Run> runs, Bytes size);
  void cut_out(const Runs& taken, Bytes size);

  std::vector<std::uint32_t> block_of_;  // by section
  std::vector<Block> blocks_;
  std::vector<Runs> groups_;  // what lasts throughout many blocks
  std::uint32_t leaves_ = 0;
  std::vector<Runs> arrivals_;  // a binary heap from 1

  std::uint64_t effort_ = 0;
  std::vector<const Runs*> lists_;  // of the current query
  Runs first_partial_, last_partial_;
  std::vector<Run> gaps_, narrower_;  // candidates of the query
};

// Places one buffer after another, each where it fits among those placed before.
//
// Largest first into the smallest gap is the method of TensorFlow Lite's and XLA's planners (Pisarchyk and Lee,
// "Efficient memory management for deep neural net inference", arXiv 2001.03288).

/// Buffers in placement order.
using Order = std::vector<std::uint32_t>;

/// Greatest first, ties by the other keys, the buffer that arrives first, and its row.
Order order_by_size(const Problem& problem);      // then lifetime
Order order_by_area(const Problem& problem);      // size times lifetime
Order order_by_lifetime(const Problem& problem);  // then size

/// Adds GapIndex::effort() to `effort`. Where `buffers` are given, each is as aligned as it needs, and those that have
/// to lie somewhere come first.
Placement place_in_order(const Problem& problem, std::span<const std::uint32_t> order, Fit fit, std::uint64_t& effort,
                         std::span<const Buffer> buffers = {});

// Online allocation as one plan among others: what an allocator would do that sees one request after another. On real
// programs it is hard to beat; with many short lifetimes it beats the greedy planners.

enum class Direction : std::uint8_t { forwards, backwards };  // backwards: time reversed, an equally valid plan

/// fit.best or fit.first (analyzer/replay/policies/growing_range.h) without pages. If the sizes add up to more than
/// these can address, returns no offsets and a peak above all others.
Placement place_online(const Problem& problem, std::span<const Buffer> buffers, Fit fit, Direction direction);

}  // namespace memreel::plan
