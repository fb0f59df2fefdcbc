// Finds the room that is left over a stretch of time among buffers that are placed already.
//
// A segment tree over the sections. A node knows which offsets are taken somewhere in its stretch of time (`touched`)
// and which by buffers that last throughout it and were filed there (`covered`). What is taken during a lifetime is the
// union of what is touched in the few nodes that it is made of and what is covered in the nodes above them. Packed
// buffers touch each other, so a union of thousands is a few runs, and no query looks at single buffers.
#pragma once

#include <cstdint>
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
  explicit GapIndex(std::uint32_t section_count);

  /// An offset at which `size` bytes are untaken throughout `lifetime`.
  Bytes find(Lifetime lifetime, Bytes size, Fit fit);

  /// How many runs were looked at so far: what time it took, whatever the machine.
  std::uint64_t effort() const { return effort_; }

  /// Takes what find() gave. Gaps below `least`, which no later buffer can use, may be forgotten.
  void take(Lifetime lifetime, Bytes offset, Bytes size, Bytes least);

 private:
  struct Run {
    Bytes begin, end;
  };
  /// Ascending, none touching the next.
  struct Runs {
    std::vector<Run> list;
    Bytes sum;  // of their lengths
  };

  struct Node {
    Runs touched, covered;
  };

  /// Calls `within` with the nodes that make up `lifetime` and `above` with the nodes above these.
  template <class Within, class Above>
  void visit(Lifetime lifetime, const Within& within, const Above& above);

  static void add(Runs& runs, Run run, Bytes least);
  void cut_out(const Runs& taken, Bytes size);

  std::uint32_t leaves_;
  std::uint64_t effort_ = 0;
  std::vector<Node> nodes_;  // a binary heap from 1
  std::vector<const Runs*> lists_;
  std::vector<Run> gaps_, narrower_;  // candidates of a query
};

}  // namespace memreel::plan
