// Finds the room that is left over a stretch of time among buffers that are placed already.
//
// Time is cut into blocks of some hundred arrivals and departures each. What is taken during a lifetime is the union of
// - what lasts throughout the block in which the lifetime begins, or throughout a group of blocks around it,
// - what arrives or departs in the blocks in which it begins and ends, as far as it shares a time with it,
// - what arrives in the blocks between: a segment tree over the blocks.
// Packed buffers touch each other, so a union of thousands is a few runs, and a query passes over half a dozen lists of
// them. Only those that arrive or depart in two blocks are looked at one by one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/plan/problem.h"

namespace memreel::plan {

/// Which of the gaps that are large enough.
enum class Fit : std::uint8_t {
  smallest,  // of several the lowest; the room above everything counts as the largest
  lowest,
};

class GapIndex {
 public:
  /// For the lifetimes of `problem`, which only the constructor looks at. Blocks of more than one section have
  /// `most_edges` arrivals and departures: the more, the fewer lists there are, and the more pieces are looked at one
  /// by one.
  explicit GapIndex(const Problem& problem, std::uint32_t most_edges = 512);

  /// An offset at which `size` bytes are untaken throughout `lifetime`.
  Bytes find(Lifetime lifetime, Bytes size, Fit fit);

  /// How many runs and gaps were looked at so far: what time it took, whatever the machine.
  std::uint64_t effort() const { return effort_; }

  /// Takes what find() gave. Gaps below `least`, which no later buffer can use, may be forgotten.
  void take(Lifetime lifetime, Bytes offset, Bytes size, Bytes least);

  struct Run {
    Bytes begin, end;
  };

 private:
  /// Ascending, none touching the next.
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
    Runs through;                // of those that neither arrive nor depart in the block
    std::vector<Piece> partial;  // of those that do, by offset, unless
    Runs edges;                  // the block is one section, which all of them last throughout
  };

  void add_partial(std::uint32_t block, Lifetime lifetime, Run run, Bytes least);
  void collect(const Runs& runs);
  void collect_partial(const Block& block, Lifetime lifetime, Runs& merged);

  static void add(Runs& runs, Run run, Bytes least);
  void gaps_between(std::span<const Run> runs, Bytes size);
  void cut_out(const Runs& taken, Bytes size);

  std::vector<std::uint32_t> block_of_;  // of each section
  std::vector<Block> blocks_;
  std::vector<Runs> groups_;  // what lasts throughout many blocks
  std::uint32_t leaves_ = 0;
  std::vector<Runs> arrivals_;  // a binary heap from 1

  std::uint64_t effort_ = 0;
  std::vector<const Runs*> lists_;  // of a query
  Runs first_partial_, last_partial_;
  std::vector<Run> gaps_, narrower_;  // its candidates
};

}  // namespace memreel::plan
