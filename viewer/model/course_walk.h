// A heap's figures, event after event.
#pragma once

#include <cstdint>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// Goes through a trace in order. The document and the course must outlive it.
class CourseWalk {
 public:
  /// Begins after `events` events, at most all. Cost: the events of one leaf.
  CourseWalk(const Document& document, const HeapCourse& heap, std::uint32_t events);

  /// How many events lie behind, and the figures after them.
  std::uint32_t at() const { return at_; }
  const Figures& figures() const { return figures_; }

  /// Goes on until `end` events lie behind, at least one more and at most all. Returns what the figures were after each
  /// of those passed. Looks at no more than the events of two leaves.
  Extent advance(std::uint32_t end);

 private:
  void begin_at_leaf(std::uint32_t leaf);
  void step();
  void apply_allocation(std::uint32_t id, bool begins);

  const Document& document_;
  const HeapCourse& heap_;
  std::uint32_t at_ = 0;
  std::uint32_t other_ = 0;  // the next row of Columns::other
  Figures figures_{};
};

}  // namespace memreel::viewer
