// Which device memory each heap had, and when.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "viewer/model/document.h"

namespace memreel::viewer {

/// Follows the segment events of a trace. The rules where they contradict each other are those of LiveSet
/// (formats/model/live_set.h); only, neighbours that were mapped one by one stay as they were mapped.
class SegmentHistory {
 public:
  /// A segment event. Returns by how much the reserved bytes of `heap` changed.
  std::int64_t apply(const Event& event, HeapId heap, std::uint32_t at);

  const Growing<Segment>& segments() const { return segments_; }
  const Growing<LateEvent>& ends() const { return ends_; }
  /// Rows of those that have not ended.
  std::vector<std::uint32_t> held() const;

 private:
  using Place = std::pair<HeapId, Address>;

  void begin(const Segment& segment, HeapId heap);
  /// Ends what lies in the range; parts beside it begin anew.
  std::int64_t cut(HeapId heap, Address begin, Address end, std::uint32_t at);

  Growing<Segment> segments_;
  Growing<LateEvent> ends_;
  std::map<Place, std::uint32_t> open_;
};

}  // namespace memreel::viewer
