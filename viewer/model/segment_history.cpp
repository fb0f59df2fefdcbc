#include "viewer/model/segment_history.h"

#include <algorithm>
#include <limits>

namespace memreel::viewer {
namespace {

Address end_of(Address address, Bytes size) {
  constexpr Address last{std::numeric_limits<std::uint64_t>::max()};
  return size > last - address ? last : address + size;
}

}  // namespace

void SegmentHistory::begin(const Segment& segment, HeapId heap) {
  open_[{heap, segment.address}] = static_cast<std::uint32_t>(segments_.size());
  segments_.push_back(segment);
  ends_.push_back();
}

std::int64_t SegmentHistory::cut(HeapId heap, Address begin_address, Address end_address, std::uint32_t at) {
  std::int64_t change = 0;
  auto place = open_.upper_bound({heap, begin_address});
  if (place != open_.begin() && std::prev(place)->first.first == heap) --place;
  while (place != open_.end() && place->first.first == heap && place->first.second < end_address) {
    const Segment whole = segments_[place->second];
    const Address whole_end = end_of(whole.address, whole.size);
    if (whole_end <= begin_address) {
      ++place;
      continue;
    }
    ends_[place->second].set(at);
    place = open_.erase(place);
    const auto keep = [&](Address from, Address to) {
      Segment part = whole;
      part.address = from;
      part.size = to - from;
      part.begin = at;
      begin(part, heap);
    };
    if (whole.address < begin_address) keep(whole.address, begin_address);
    if (end_address < whole_end) keep(end_address, whole_end);
    change -=
        static_cast<std::int64_t>((std::min(end_address, whole_end) - std::max(begin_address, whole.address)).count);
  }
  return change;
}

std::int64_t SegmentHistory::apply(const Event& event, HeapId heap, std::uint32_t at) {
  const Address end = end_of(event.address, event.size);
  if (end == event.address) return 0;
  const std::int64_t change = cut(heap, event.address, end, at);
  if (event.kind == EventKind::segment_free || event.kind == EventKind::segment_unmap) return change;
  begin({.address = event.address,
         .size = end - event.address,
         .origin = event.origin,
         .mapped = event.kind == EventKind::segment_map,
         .begin = at},
        heap);
  return change + static_cast<std::int64_t>((end - event.address).count);
}

std::vector<std::uint32_t> SegmentHistory::held() const {
  std::vector<std::uint32_t> rows;
  rows.reserve(open_.size());
  for (const auto& [place, row] : open_) rows.push_back(row);
  std::ranges::sort(rows);
  return rows;
}

}  // namespace memreel::viewer
