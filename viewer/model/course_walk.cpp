#include "viewer/model/course_walk.h"

namespace memreel::viewer {

CourseWalk::CourseWalk(const Document& document, const HeapCourse& heap, std::uint32_t events)
    : document_(document), heap_(heap) {
  begin_at_leaf(events / leaf_events);
  while (at_ < events) step();
}

void CourseWalk::begin_at_leaf(std::uint32_t leaf) {
  at_ = leaf * leaf_events;
  figures_ = leaf == 0 ? Figures{} : heap_.pyramid.leaf(leaf - 1).last;
  other_ = document_.others_before(at_);
}

void CourseWalk::apply_allocation(std::uint32_t id, bool begins) {
  if (document_.heap_of(document_.origin_of(id)) != heap_.heap) return;
  const std::uint64_t size = document_.size_of(id).count;
  if (begins) {
    part(figures_, Figure::live) += size;
    part(figures_, Figure::held) += size;
    return;
  }
  if (document_.requested(id) == at_) part(figures_, Figure::live) -= size;
  if (document_.completed(id) == at_) part(figures_, Figure::held) -= size;
}

void CourseWalk::step() {
  const Columns& columns = document_.columns;
  const auto others = static_cast<std::uint32_t>(columns.other.size());
  for (; other_ < others && columns.other[other_].at == at_; ++other_) {
    const OtherEvent& row = columns.other[other_];
    if (row.event.kind == EventKind::free_completed && row.event.allocation != AllocationId::none)
      apply_allocation(index(row.event.allocation), false);
    if (row.reserved_change != 0 && document_.heap_of(row.event.origin) == heap_.heap)
      part(figures_, Figure::reserved) += static_cast<std::uint64_t>(row.reserved_change);
  }
  const std::uint64_t subject = columns.subject[at_];
  if (subject_kind(subject) != Subject::other)
    apply_allocation(subject_row(subject), subject_kind(subject) == Subject::alloc);
  settle(figures_);
  ++at_;
}

Extent CourseWalk::advance(std::uint32_t end) {
  Extent extent;
  bool is_first = true;
  const auto add = [&](const Extent& part) {
    if (is_first)
      extent = part;
    else
      extent.add(part);
    is_first = false;
  };
  while (at_ < end) {
    const std::uint32_t leaf = at_ / leaf_events, leaves = end / leaf_events;
    if (at_ % leaf_events == 0 && leaf < leaves) {
      add(heap_.pyramid.over(leaf, leaves));
      begin_at_leaf(leaves);
    } else {
      step();
      add(Extent::at(figures_));
    }
  }
  return extent;
}

}  // namespace memreel::viewer
