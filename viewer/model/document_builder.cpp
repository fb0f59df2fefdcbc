// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/document_builder.h"

#include <algorithm>

namespace memreel::viewer {
namespace {

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
  part(series.now, Metric::live) -= events_->size_of(AllocationId{id}).count;
}

void DocumentBuilder::complete(std::uint32_t id, Series& series) {
  end_allocation(id, series);
  if (completed_[id].get() != never) return;
  if (requested_[id].get() + 1 < at_) series.has_pending = true;
  completed_[id].set(at_);
  part(series.now, Metric::held) -= events_->size_of(AllocationId{id}).count;
  const HeapAddress place{events_->address_of(AllocationId{id}), series.heap};
  if (by_place_.find(place) == id) by_place_.erase(place);
}

void DocumentBuilder::add_alloc(const Event& event) {
  const auto id = static_cast<std::uint32_t>(requested_.size());
  Series& series = series_of((*tables_)[event.origin].heap);
  if (const std::uint32_t displaced = by_place_.find({event.address, series.heap}); displaced != absent) {
    complete(displaced, series);
    other_.push_back(OtherRow{.at = at_, .displaced = displaced});
  }
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
  const bool is_by_place = event.allocation == AllocationId::none;
  if (is_by_place) id = by_place_.find({event.address, (*tables_)[event.origin].heap});
  if (id >= requested_.size() || completed_[id].get() != never) return add_other();
  if (is_by_place) free_by_place_.push_back(FreeByPlace{.at = at_, .allocation = id});
  const HeapId heap = (*tables_)[events_->origin_of(AllocationId{id})].heap;
  Series& series = series_of(heap);
  const bool completes = event.kind == EventKind::free_completed;
  if (completes || !(*tables_)[heap].observes_completion)
    complete(id, series);
  else
    end_allocation(id, series);
  follow(series);
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

void DocumentBuilder::add_event(const Event& event) {
  if (at_ % leaf_events == 0) begin_leaf(event.time);
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
      add_other(change);
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
      if (event.kind == EventKind::memory_info && samples_whole_heap(*tables_, (*tables_)[event.origin]))
        series_of((*tables_)[event.origin].heap).samples.push_back(static_cast<std::uint32_t>(other_.size()));
      add_other();
      break;
  }
  if (++at_ % leaf_events == 0) end_leaf();
  if (at_ >= next_keyframe_) take_keyframe();
}

void DocumentBuilder::take_keyframe() {
  auto keyframe = std::make_shared<Keyframe>();
  keyframe->event = at_;
  keyframe->allocations = static_cast<std::uint32_t>(requested_.size());
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

void DocumentBuilder::add(const EventColumns& block, const Events& all, const Tables& tables) {
  tables_ = &tables;
  events_ = &all;
  for (std::size_t i = 0; i < block.count(); ++i) add_event(block[i]);
}

void DocumentBuilder::add(const Trace& trace, std::size_t end) {
  EventColumns block;
  while (at_ < end) {
    trace.events.read(at_, std::min(end, at_ + Events::block_rows), event_field::all, block);
    add(block, trace.events, trace.tables);
  }
}

std::shared_ptr<Document> DocumentBuilder::publish(std::shared_ptr<const Trace> trace, bool complete) {
  if (!published_tables_ || !same_size(*published_tables_, trace->tables))
    published_tables_ = std::shared_ptr<const Tables>(trace, &trace->tables);
  auto document = std::make_shared<Document>();
  document->trace = std::move(trace);
  document->tables = published_tables_;
  // Names are not needed while more events are coming.
  if (complete && published_sites_->size() != published_tables_->stacks.size())
    published_sites_ = sites_.extend(*published_tables_);
  document->sites = published_sites_;
  document->complete = complete;
  document->older =
      complete ? older_of(*document->trace) : Older{.with_stacks = document->trace->losses.preexisting_allocations};
  document->shown = at_;
  document->keyframes = keyframes_;
  document->columns = {.leaf_latest = leaf_latest_.view(),
                       .requested = requested_.view(),
                       .completed = completed_.view(),
                       .free_by_place = free_by_place_.view(),
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
