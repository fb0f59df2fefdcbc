// Iterates over a heap's metrics, event by event.
#pragma once

#include <cstdint>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// Walks a trace in order. The document and the series must outlive it.
class SeriesWalk {
 public:
  /// Starts after `events` events, at most all. Cost: the events of one leaf.
  SeriesWalk(const Document& document, const HeapSeries& heap, std::uint32_t events);

  /// The number of events passed, and the metrics after them.
  std::uint32_t at() const { return at_; }
  const Metrics& metrics() const { return metrics_; }

  /// Advances until `end` events are passed, at least one more and at most all. Returns the extent of the metrics after
  /// each of those events. Visits at most the events of two leaves.
  Extent advance(std::uint32_t end);

 private:
  void begin_at_leaf(std::uint32_t leaf);
  void step();
  void apply_allocation(std::uint32_t id, bool begins);

  const Document& document_;
  const HeapSeries& heap_;
  std::uint32_t at_ = 0;
  std::uint32_t other_ = 0;  // the next row of Columns::other
  Metrics metrics_{};
};

}  // namespace memreel::viewer
