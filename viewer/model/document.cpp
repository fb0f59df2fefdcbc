// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/document.h"

#include "viewer/model/axis.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

/// Stacks of real programs have far fewer frames in total; stacks that recurse a million deep are each their own site.
constexpr std::uint64_t most_frames = 2'000'000;

}  // namespace

std::shared_ptr<const SiteTable> Sites::extend(const Tables& tables) {
  if (of_stack_.empty()) {
    of_stack_.push_back(StackId::none);
    depth_.push_back(0);
  }
  for (auto s = static_cast<std::uint32_t>(of_stack_.size()); s < tables.stacks.size(); ++s) {
    depth_.push_back(depth_[index(tables.stacks[s].caller)] + 1);
    StackId site{s};
    if (frames_ + depth_.back() <= most_frames) {
      frames_ += depth_.back();
      site = by_label_.try_emplace(stack_label(tables, site), site).first->second;
    }
    of_stack_.push_back(site);
  }
  return std::make_shared<const SiteTable>(of_stack_);
}

namespace {

/// Row numbers of a view, for the searches of <algorithm>.
template <class Predicate>
std::uint32_t first_row(std::uint32_t count, const Predicate& not_before) {
  std::uint32_t begin = 0;
  while (count > 0) {
    const std::uint32_t half = count / 2;
    if (not_before(begin + half)) {
      count = half;
    } else {
      begin += half + 1;
      count -= half + 1;
    }
  }
  return begin;
}

}  // namespace

std::vector<std::string> Document::shortcomings() const {
  return memreel::shortcomings(trace->losses, trace->read, complete ? trace->file_size : Bytes{}, older);
}

std::optional<std::uint32_t> Document::allocation_of(std::uint32_t event) const {
  const EventKind what = kind(event);
  if (what == EventKind::alloc) return index(trace->events.allocation(event));
  if (!is_free(what)) return std::nullopt;
  const AllocationId freed = trace->events.allocation(event);
  if (freed != AllocationId::none) {
    // One that had already ended is not freed again.
    return completed(index(freed)) < event ? std::nullopt : std::optional(index(freed));
  }
  const ColumnView<FreeByPlace>& frees = columns.free_by_place;
  const auto count = static_cast<std::uint32_t>(frees.size());
  const std::uint32_t row = first_row(count, [&](std::uint32_t i) { return frees[i].at >= event; });
  if (row == count || frees[row].at != event) return std::nullopt;
  return frees[row].allocation;
}

Event Document::recorded(std::uint32_t event) const {
  Event recorded = trace->events[event];
  if (is_free(recorded.kind) && recorded.allocation != AllocationId::none) recorded.address = {}, recorded.size = {};
  return recorded;
}

OtherEvent Document::other(std::uint32_t row) const {
  const OtherRow& found = columns.other[row];
  if (found.displaced == never) return {.at = found.at, .event = recorded(found.at)};
  return {.at = found.at,
          .event = {.kind = EventKind::free_completed,
                    .origin = trace->events.origin(found.at),
                    .allocation = AllocationId{found.displaced},
                    .time = time(found.at)}};
}

Allocation Document::allocation(std::uint32_t id) const {
  return {.id = AllocationId{id},
          .address = address_of(id),
          .size = size_of(id),
          .stack = stack_of(id),
          .origin = origin_of(id),
          .begin = begin_of(id),
          .requested = requested(id),
          .completed = completed(id)};
}

Segment Document::segment(std::uint32_t i) const {
  Segment segment = columns.segment[i];
  segment.end = seen(columns.segment_end[i].get());
  return segment;
}

const HeapSeries* Document::series(HeapId heap) const {
  const auto found = std::ranges::find(heaps, heap, &HeapSeries::heap);
  return found == heaps.end() ? nullptr : &*found;
}

Nanoseconds Document::last_time() const {
  if (empty()) return {};
  const std::uint32_t leaf = (event_count() - 1) / leaf_events;
  auto latest = leaf == 0 ? time(0) : Nanoseconds{columns.leaf_latest[leaf - 1]};
  for (std::uint32_t e = leaf * leaf_events; e < event_count(); ++e) latest = std::max(latest, time(e));
  return latest;
}

std::uint32_t Document::events_until(Nanoseconds until, std::uint32_t least) const {
  const auto leaves = std::min(static_cast<std::uint32_t>(columns.leaf_latest.size()), event_count() / leaf_events);
  std::uint32_t leaf = least / leaf_events;
  if (leaf < leaves && columns.leaf_latest[leaf] <= until.count())
    leaf += first_row(leaves - leaf, [&](std::uint32_t i) { return columns.leaf_latest[leaf + i] > until.count(); });
  const std::uint32_t begin = leaf * leaf_events, end = begin + std::min(leaf_events, event_count() - begin);
  std::uint32_t event = std::max(least, begin);
  while (event < end && time(event) <= until) ++event;
  return event;
}

std::uint32_t Document::allocations_before(std::uint32_t event) const {
  return first_row(allocation_count(), [&](std::uint32_t id) { return begin_of(id) >= event; });
}

std::uint32_t Document::segments_before(std::uint32_t event) const {
  return first_row(segment_count(), [&](std::uint32_t i) { return columns.segment[i].begin >= event; });
}

std::uint32_t Document::others_before(std::uint32_t event) const {
  return first_row(static_cast<std::uint32_t>(columns.other.size()),
                   [&](std::uint32_t i) { return columns.other[i].at >= event; });
}

std::uint32_t Document::rows_before(const ColumnView<std::uint32_t>& rows, std::uint32_t event) const {
  return first_row(static_cast<std::uint32_t>(rows.size()),
                   [&](std::uint32_t i) { return columns.other[rows[i]].at >= event; });
}

std::uint32_t Document::notables_before(std::uint32_t event) const { return rows_before(columns.notable, event); }

std::uint32_t Document::spans_before(std::uint32_t event) const {
  return first_row(static_cast<std::uint32_t>(columns.span.size()),
                   [&](std::uint32_t i) { return columns.span[i].begin >= event; });
}

Metrics Document::metrics_after(const HeapSeries& heap, std::uint32_t events) const {
  return SeriesWalk(*this, heap, std::min(events, event_count())).metrics();
}

Extent Document::extent(const HeapSeries& heap, std::uint32_t begin, std::uint32_t end) const {
  return SeriesWalk(*this, heap, begin).advance(end);
}

std::uint32_t Document::highest(const HeapSeries& heap, Metric metric, std::uint32_t begin, std::uint32_t end) const {
  const auto most = [&](std::uint32_t from, std::uint32_t to) { return value_of(extent(heap, from, to).max, metric); };
  const std::uint64_t wanted = most(begin, end);
  while (end - begin > 1) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (most(begin, middle) == wanted)
      end = middle;
    else
      begin = middle;
  }
  return begin;
}

const Keyframe& Document::keyframe_before(std::uint32_t events) const {
  static const Keyframe beginning;
  const auto after = std::ranges::upper_bound(keyframes, events, {}, [](const auto& k) { return k->event; });
  return after == keyframes.begin() ? beginning : **std::prev(after);
}

}  // namespace memreel::viewer
