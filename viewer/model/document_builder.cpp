// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/document_builder.h"

#include <algorithm>
#include <limits>

#include "formats/model/frame_kind.h"
#include "formats/model/trace.h"

namespace memreel::viewer {
namespace {

std::uint64_t zigzag(std::int64_t value) {
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
  return (magnitude << 1U) | (value < 0 ? 1U : 0U);
}

bool same_size(const Tables& a, const Tables& b) {
  return a.strings.size() == b.strings.size() && a.modules.size() == b.modules.size() &&
         a.frames.size() == b.frames.size() && a.stacks.size() == b.stacks.size() && a.heaps.size() == b.heaps.size() &&
         a.pools.size() == b.pools.size() && a.streams.size() == b.streams.size() &&
         a.threads.size() == b.threads.size() && a.origins.size() == b.origins.size() &&
         a.marks.size() == b.marks.size() && a.settings.size() == b.settings.size();
}

}  // namespace

DocumentBuilder::Series& DocumentBuilder::series_of(HeapId heap) {
  for (Series& series : all_series_)
    if (series.heap == heap) return series;
  Series series{.heap = heap};
  for (std::uint32_t leaf = 0; leaf < at_ / leaf_events; ++leaf) series.pyramid.push_leaf(Extent{});
  return all_series_.emplace_back(std::move(series));
}

void DocumentBuilder::begin_leaf(Nanoseconds time) {
  leaf_time_.push_back(time.count());
  leaf_allocation_.push_back(static_cast<std::uint32_t>(address_.size()));
  leaf_latest_.push_back(leaf_latest_.size() == 0 ? time.count() : leaf_latest_[leaf_latest_.size() - 1]);
}

void DocumentBuilder::end_leaf() {
  for (Series& series : all_series_) {
    if (!series.used) series.leaf = Extent::at(series.now);
    series.pyramid.push_leaf(series.leaf);
    series.used = false;
  }
}

void DocumentBuilder::follow(Series& series) const {
  settle(series.now);
  if (!series.used) series.leaf = Extent::at(at_ % leaf_events == 0 ? series.now : series.before);
  series.leaf.add(Extent::at(series.now));
  series.before = series.now;
  series.used = true;
  const std::uint64_t live = value_of(series.now, Metric::live);
  if (live > series.peak_live) {
    series.peak_live = live;
    series.peak_live_event = at_ + 1;
  }
  // As in HeapHistory: of the instants at the reserved peak, the one with most live memory.
  const std::uint64_t reserved = value_of(series.now, Metric::reserved);
  const bool is_tighter = reserved == series.peak_reserved && live > series.live_at_peak_reserved;
  if (reserved > series.peak_reserved || (reserved > 0 && is_tighter)) {
    series.peak_reserved = reserved;
    series.live_at_peak_reserved = live;
    series.peak_reserved_event = at_ + 1;
  }
}

void DocumentBuilder::end_allocation(std::uint32_t id, Series& series) {
  if (requested_[id].get() != never) return;
  requested_[id].set(at_);
  part(series.now, Metric::live) -= size_[id];
}

void DocumentBuilder::complete(std::uint32_t id, Series& series) {
  end_allocation(id, series);
  if (completed_[id].get() != never) return;
  if (requested_[id].get() + 1 < at_) series.has_pending = true;
  completed_[id].set(at_);
  part(series.now, Metric::held) -= size_[id];
  const HeapAddress place{{address_[id]}, series.heap};
  if (by_place_.find(place) == id) by_place_.erase(place);
}

void DocumentBuilder::add_alloc(const Event& event) {
  const auto id = static_cast<std::uint32_t>(address_.size());
  Series& series = series_of((*tables_)[event.origin].heap);
  if (const std::uint32_t displaced = by_place_.find({event.address, series.heap}); displaced != absent) {
    complete(displaced, series);
    Event end{.kind = EventKind::free_completed, .origin = event.origin, .allocation = AllocationId{displaced}};
    end.time = event.time;
    other_.push_back(OtherEvent{.at = at_, .event = end});
  }
  subject_.push_back(target_of(EventTarget::alloc, id));
  address_.push_back(event.address.value);
  size_.push_back(event.size.count);
  stack_.push_back(index(event.stack));
  origin_.push_back(index(event.origin));
  requested_.push_back();
  completed_.push_back();
  by_place_.put({event.address, series.heap}, id);
  part(series.now, Metric::live) += event.size.count;
  part(series.now, Metric::held) += event.size.count;
  ++series.allocations;
  follow(series);
}

void DocumentBuilder::add_free(const Event& event) {
  std::uint32_t id = index(event.allocation);
  if (event.allocation == AllocationId::none) id = by_place_.find({event.address, (*tables_)[event.origin].heap});
  if (id >= address_.size() || completed_[id].get() != never) {
    Event other = event;
    if (event.allocation != AllocationId::none) other.address = {}, other.size = {};  // the allocation's own
    return add_other(other, 0);
  }
  const HeapId heap = (*tables_)[OriginId{static_cast<std::uint32_t>(origin_[id])}].heap;
  Series& series = series_of(heap);
  const bool completes = event.kind == EventKind::free_completed;
  subject_.push_back(target_of(completes ? EventTarget::free_completed : EventTarget::free_requested, id));
  if (completes || !(*tables_)[heap].observes_completion)
    complete(id, series);
  else
    end_allocation(id, series);
  follow(series);
}

void DocumentBuilder::add_other(const Event& event, std::int64_t reserved_change) {
  subject_.push_back(target_of(EventTarget::other, static_cast<std::uint32_t>(other_.size())));
  other_.push_back(OtherEvent{.at = at_, .event = event, .reserved_change = reserved_change});
}

void DocumentBuilder::add_mark(const Event& event) {
  const Mark& mark = (*tables_)[MarkId{static_cast<std::uint32_t>(event.value)}];
  std::vector<std::uint32_t>& open = open_spans_[(*tables_)[event.origin].thread];
  if (mark.phase == MarkPhase::begin) {
    const std::uint32_t parent = open.empty() ? never : open.back();
    open.push_back(static_cast<std::uint32_t>(span_.size()));
    span_.push_back(mark.name, at_, static_cast<std::uint32_t>(open.size() - 1), parent, ++spans_named_[mark.name]);
    span_depths_ = std::max(span_depths_, static_cast<std::uint32_t>(open.size()));
    span_end_.push_back();
  } else if (mark.phase == MarkPhase::end) {
    // Ends may be missing: nested ranges end with the outer one.
    const auto begin =
        std::find_if(open.rbegin(), open.rend(), [&](std::uint32_t s) { return span_[s].name == mark.name; });
    if (begin == open.rend()) return;
    const auto kept = static_cast<std::size_t>(open.rend() - begin) - 1;
    for (std::size_t i = kept; i < open.size(); ++i) span_end_[open[i]].set(at_);
    open.resize(kept);
  } else {
    instant_.push_back(static_cast<std::uint32_t>(other_.size()));
  }
}

void DocumentBuilder::add_event(Event event) {
  if (at_ % leaf_events == 0) begin_leaf(event.time);
  time_offset_.push_back(zigzag(event.time.count() - leaf_time_[leaf_time_.size() - 1]));
  std::int64_t& latest = leaf_latest_[leaf_latest_.size() - 1];
  latest = std::max(latest, event.time.count());

  switch (event.kind) {
    case EventKind::alloc:
      add_alloc(event);
      break;
    case EventKind::free_requested:
    case EventKind::free_completed:
      add_free(event);
      break;
    case EventKind::segment_alloc:
    case EventKind::segment_free:
    case EventKind::segment_map:
    case EventKind::segment_unmap: {
      Series& series = series_of((*tables_)[event.origin].heap);
      const std::int64_t change = segments_.apply(event, series.heap, at_);
      add_other(event, change);
      series.has_segments = true;
      part(series.now, Metric::reserved) += static_cast<std::uint64_t>(change);
      follow(series);
      break;
    }
    default:
      if (event.kind == EventKind::mark) add_mark(event);
      if (event.kind != EventKind::sync && event.kind != EventKind::memory_info)
        notable_.push_back(static_cast<std::uint32_t>(other_.size()));
      if (event.kind == EventKind::empty_cache) emptied_.push_back(static_cast<std::uint32_t>(other_.size()));
      if (event.kind == EventKind::settings) setting_.push_back(static_cast<std::uint32_t>(other_.size()));
      if (event.kind == EventKind::alloc_failed) failure_.push_back(static_cast<std::uint32_t>(other_.size()));
      if (event.kind == EventKind::alloc_failed) ++series_of((*tables_)[event.origin].heap).failures;
      if (event.kind == EventKind::memory_info && samples_whole_heap((*tables_)[event.origin]))
        series_of((*tables_)[event.origin].heap).samples.push_back(static_cast<std::uint32_t>(other_.size()));
      add_other(event, 0);
      break;
  }
  if (++at_ % leaf_events == 0) end_leaf();
  if (at_ >= next_keyframe_) take_keyframe();
}

void DocumentBuilder::take_keyframe() {
  auto keyframe = std::make_shared<Keyframe>();
  keyframe->event = at_;
  keyframe->allocations = static_cast<std::uint32_t>(address_.size());
  keyframe->segments = static_cast<std::uint32_t>(segments_.segments().size());
  std::uint32_t first = 0;
  if (!keyframes_.empty()) {
    const Keyframe& before = *keyframes_.back();
    first = before.allocations;
    for (const std::uint32_t id : before.held)
      if (completed_[id].get() == never) keyframe->held.push_back(id);
  }
  for (std::uint32_t id = first; id < keyframe->allocations; ++id)
    if (completed_[id].get() == never) keyframe->held.push_back(id);
  keyframe->held.shrink_to_fit();
  keyframe->segments_held = segments_.held();
  // With much live, keyframes are farther apart, so that together they take half a byte for each event.
  const std::size_t rows = keyframe->held.size() + keyframe->segments_held.size();
  next_keyframe_ =
      at_ + std::max(keyframe_interval_, static_cast<std::uint32_t>(std::min<std::size_t>(8 * rows, 1U << 24U)));
  keyframes_.push_back(std::move(keyframe));
}

template <class From>
void DocumentBuilder::add(const From& events, std::size_t begin, std::size_t end, const Tables& tables) {
  tables_ = &tables;
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max() - 1;
  for (std::size_t i = begin; i < end && at_ < most; ++i) add_event(events[i]);
}

template void DocumentBuilder::add(const Events&, std::size_t, std::size_t, const Tables&);
template void DocumentBuilder::add(const EventColumns&, std::size_t, std::size_t, const Tables&);

std::shared_ptr<const Document> DocumentBuilder::publish(const TraceReader& reader, std::uint64_t bytes,
                                                         bool complete) {
  const Described described{reader.header(), reader.tables(), reader.losses(), reader.folded(), reader.report()};
  return publish(described, bytes, complete);
}

std::shared_ptr<const Document> DocumentBuilder::publish(const Trace& trace, std::uint64_t bytes, bool complete) {
  const Described described{trace.header, trace.tables, trace.losses, trace.folded, trace.read};
  return publish(described, bytes, complete);
}

std::shared_ptr<const Document> DocumentBuilder::publish(const Described& trace, std::uint64_t bytes, bool complete) {
  auto document = std::make_shared<Document>();
  document->begun_anew = begun_anew_;
  document->whole = whole_;
  document->header = trace.header;
  if (!published_tables_ || !same_size(*published_tables_, trace.tables)) {
    Tables tables = trace.tables;
    shorten_paths(tables);  // as in a trace that was loaded whole: places have the same names in verdicts and lists
    published_tables_ = std::make_shared<const Tables>(std::move(tables));
  }
  document->tables = published_tables_;
  // Names are not needed while more events are coming.
  if (complete && published_sites_->size() != published_tables_->stacks.size())
    published_sites_ = sites_.extend(*published_tables_);
  document->sites = published_sites_;
  document->losses = trace.losses;
  // It arrives in parts, before the events.
  if (trace.folded.rows.size() != published_folded_->rows.size())
    published_folded_ = std::make_shared<const FoldedHistory>(trace.folded);
  document->folded = published_folded_;
  document->read = trace.read;
  document->bytes = bytes;
  document->complete = complete;
  document->keyframes = keyframes_;
  document->columns = {.time_offset = time_offset_.view(),
                       .target = subject_.view(),
                       .leaf_time = leaf_time_.view(),
                       .leaf_latest = leaf_latest_.view(),
                       .leaf_allocation = leaf_allocation_.view(),
                       .address = address_.view(),
                       .size = size_.view(),
                       .stack = stack_.view(),
                       .origin = origin_.view(),
                       .requested = requested_.view(),
                       .completed = completed_.view(),
                       .segment = segments_.segments().view(),
                       .segment_end = segments_.ends().view(),
                       .other = other_.view(),
                       .notable = notable_.view(),
                       .failure = failure_.view(),
                       .emptied = emptied_.view(),
                       .setting = setting_.view(),
                       .instant = instant_.view(),
                       .span = span_.view(),
                       .span_end = span_end_.view(),
                       .span_depths = span_depths_};
  for (const Series& series : all_series_)
    document->heaps.push_back({.heap = series.heap,
                               .pyramid = series.pyramid.view(),
                               .allocations = series.allocations,
                               .failures = series.failures,
                               .peak_live = series.peak_live,
                               .peak_reserved = series.peak_reserved,
                               .peak_live_event = series.peak_live_event,
                               .peak_reserved_event = series.peak_reserved_event,
                               .has_segments = series.has_segments,
                               .has_pending = series.has_pending,
                               .samples = series.samples.view()});
  std::ranges::sort(document->heaps, {}, &HeapSeries::heap);
  return document;
}

}  // namespace memreel::viewer
