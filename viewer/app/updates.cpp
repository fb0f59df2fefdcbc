// Updates before a frame is drawn: the document, its classification, the heap at the cursor.
#include <algorithm>
#include <utility>

#include "viewer/app/viewer.h"

namespace memreel::viewer {
namespace {

/// The heap shown first: the most important one.
HeapId main_heap(const Document& document) {
  const auto most = std::ranges::max_element(document.heaps, {}, [](const HeapSeries& series) {
    return std::pair{series.allocations != 0, std::max(series.peak_reserved, series.peak_live)};
  });
  return most == document.heaps.end() ? HeapId::none : most->heap;
}

}  // namespace

void Viewer::follow_document() {
  if (!source_ || paused_) return;
  const auto latest = source_->document();
  if (latest == document_) return;
  const bool first = document_->empty() && !latest->empty();
  const bool moved = !first && selection_.view != followed_view_;
  if (!first && latest->begun_anew != document_->begun_anew) {
    forget_document();  // another trace, at the same path
    return follow_document();
  }
  if (!first && latest->renumbered != document_->renumbered) renumber(*latest);
  document_ = latest;
  if (document_->empty()) {
    if (document_->complete) wanted_instant_.reset();
    return;
  }
  const bool chosen = selection_.heap != followed_heap_;
  if (selection_.heap == HeapId::none || (cursor_follows_ && !moved && !chosen))
    selection_.heap = followed_heap_ = main_heap(*document_);
  if (!moved) selection_.look_at_all(*document_);
  followed_view_ = moved ? TimeRange() : selection_.view;
  if (cursor_follows_) {
    if (const HeapSeries* const series = document_->series(selection_.heap))
      selection_.cursor = series->peak_live_event;
  }
  if (wanted_instant_ && document_->complete) go_to(*std::exchange(wanted_instant_, std::nullopt));
  if (!moved) settled_view_ = last_view_ = selection_.view;
  if (first) selection_.remember();
}

/// View moves without a pause in between are one step in the history.
void Viewer::remember_view(double now) {
  constexpr double pause = 0.3;
  if (selection_.view != last_view_) {
    last_view_ = selection_.view;
    view_moved_ = now;
  } else if (selection_.view != settled_view_ && now - view_moved_ > pause) {
    settled_view_ = selection_.view;
    selection_.remember();
  }
}

/// Keeps the part of the selection that is still valid in `next`.
void Viewer::renumber(const Document& next) {
  if (document_->empty()) return;
  auto panes = std::make_unique<Panes>();
  panes->compare.set_other(panes_->compare.other());
  panes_ = std::move(panes);
  overlays_.clear();
  sieve_.reset();
  heap_ = HeapAt();
  if (selection_.cursor != 0)
    selection_.cursor = next.events_until(document_->time(std::min(selection_.cursor, document_->event_count()) - 1));
  selection_.renumber();
}

void Viewer::update_judged(double now) {
  if (!document_->complete) return;
  const std::uint32_t events = document_->event_count();
  if (events != std::exchange(grown_to_, events)) grown_at_ = now;
  const std::optional<std::uint32_t> judged = judged_events_ == 0 ? std::nullopt : std::optional(judged_events_);
  if (is_due(judged, events, status().followed, now - grown_at_)) judged_events_ = events;
}

void Viewer::update_classification() {
  const auto file = source_ ? source_->file() : nullptr;
  if (!file || !document_->complete || document_->empty() || !can_be_classified(*document_)) return;
  panes_->classification.request(
      judged_events_,
      [file, limit = memory_limit_](const Progress& progress) { return classify_file(file, limit, progress); }, false);
  if (!panes_->classification.is_current()) busy_ = true;
}

/// Without a filter everything passes; else the previous sieve is used until the requested one is ready.
void Viewer::update_sieve() {
  SieveKey key{.filter = typed_filter(selection_.search), .version = document_->event_count()};
  key.filter.category = selection_.category;
  if (key.filter.lets_all_pass()) {
    sieve_.reset();
    sieving_ = false;
    return;
  }
  const auto known = panes_->classification.value();
  if (known && key.filter.category) key.classified = static_cast<std::uint32_t>(known->categories.evidence.size());
  panes_->sieve.request(key, [document = document_, filter = key.filter, known](const Progress&) {
    return std::optional<Sieve>(std::in_place, document, filter, known);
  });
  sieving_ = !panes_->sieve.is_current();
  if (sieving_)
    busy_ = true;
  else
    sieve_ = panes_->sieve.value();
}

/// The heap at the cursor. Its rounding is added once known.
void Viewer::update_heap() {
  if (document_->complete && has_known_rounding(*document_)) {
    panes_->rounding.request(
        document_->event_count(),
        [document = document_](const Progress& progress) { return find_rounding(*document, progress); }, false);
    if (!panes_->rounding.is_current()) busy_ = true;
  }
  const auto rounding = panes_->rounding.value();
  const auto known = panes_->classification.value();
  const bool same_heap = heap_.event == selection_.cursor && heap_.heap == selection_.heap &&
                         heap_version_ == document_->event_count() && heap_rounding_ == rounding;
  if (same_heap && live_known_ == known && live_sieve_ == sieve_) return;
  if (!same_heap) heap_ = heap_at(*document_, selection_.heap, selection_.cursor, rounding.get());
  heap_version_ = document_->event_count();
  heap_rounding_ = rounding;
  live_known_ = known;
  live_sieve_ = sieve_;
  live_ = known ? live_by_category(heap_.blocks, *known, sieve_.get()) : LiveByCategory{};
}

/// Steps are found in the background; without any, the axis counts time.
void Viewer::update_axis() {
  if (axis_ == AxisBy::time || document_->empty()) {
    selection_.axis = {};
    return;
  }
  if (axis_ == AxisBy::event) {
    if (selection_.axis.by() != AxisBy::event || axis_of_ != document_)
      selection_.axis = AxisScale::by_events(document_);
    axis_of_ = document_;
    return;
  }
  const AxisKey key{document_, selection_.heap};
  panes_->steps.request(
      key,
      [key](const Progress&) -> std::optional<AxisScale> {
        const Steps steps = steps_of(*key.document, key.heap);
        return steps.ends.empty() ? AxisScale() : AxisScale::by_steps(SideScale::by_step(*key.document, steps));
      },
      false);
  if (!panes_->steps.is_current()) busy_ = true;
  const auto scale = panes_->steps.value();
  if (!scale) return;
  selection_.axis = *scale;
  if (scale->by() == AxisBy::time && panes_->steps.is_current()) axis_ = AxisBy::time;
}

}  // namespace memreel::viewer
