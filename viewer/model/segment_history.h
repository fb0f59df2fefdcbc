// The device memory of each heap over time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// Tracks the segment events of a trace. Contradictory events are resolved as in LiveSet (formats/model/live_set.h),
/// except that adjacent ranges mapped separately stay separate.
class SegmentHistory {
 public:
  /// A segment event. Returns the change of the reserved bytes of `heap`.
  std::int64_t apply(const Event& event, HeapId heap, std::uint32_t at);

  const Growing<Segment>& segments() const { return segments_; }
  const Growing<LateEvent>& ends() const { return ends_; }
  /// Rows of the segments that have not ended.
  std::vector<std::uint32_t> held() const;

 private:
  using Place = std::pair<HeapId, Address>;

  void begin(const Segment& segment, HeapId heap);
  /// Ends the segments in the range; parts outside it begin as new segments.
  std::int64_t cut(HeapId heap, Address begin, Address end, std::uint32_t at);

  Growing<Segment> segments_;
  Growing<LateEvent> ends_;
  std::map<Place, std::uint32_t> open_;
};

}  // namespace memreel::viewer
