// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/navigation.h"

#include <algorithm>
#include <charconv>

#include "analyzer/analysis/verdict.h"
#include "formats/model/quantity.h"

namespace memreel::viewer {
namespace {

std::optional<double> number(std::string_view text) { return parse_fraction(text, std::chars_format::general); }

}  // namespace

HeapId deciding_heap(const Document& document) {
  std::vector<HeapHistory> histories;
  for (const HeapSeries& series : document.heaps) {
    HeapHistory history{.heap = series.heap, .allocations = series.allocations, .failures = series.failures};
    history.peak_live = Bytes{series.peak_live};
    history.peak_reserved = Bytes{series.peak_reserved};
    histories.push_back(history);
  }
  const HeapHistory* const heap = memreel::deciding_heap(*document.tables, histories);
  return heap == nullptr ? HeapId::none : heap->heap;
}

HeapId main_heap(const Document& document) {
  const HeapId decides = deciding_heap(document);
  return decides == HeapId::none && !document.heaps.empty() ? document.heaps.front().heap : decides;
}

std::optional<std::uint32_t> instant_named(const Document& document, HeapId heap, std::string_view name) {
  const HeapSeries* const series = document.series(heap);
  if (name == "peak") return series == nullptr ? 0 : series->peak_live_event;
  if (name == "reserved-peak") return series == nullptr ? 0 : series->peak_reserved_event;
  if (name == "end") return document.event_count();
  if (name == "oom")
    return document.columns.failure.empty() ? 0 : document.columns.other[document.columns.failure[0]].at + 1;
  if (name.starts_with("event:")) {
    const auto value = number(name.substr(6));
    if (!value || *value < 0) return std::nullopt;
    return static_cast<std::uint32_t>(std::min(*value + 1, static_cast<double>(document.event_count())));
  }
  const bool share = name.ends_with('%');
  if (share || name.ends_with('s')) name.remove_suffix(1);
  const auto value = number(name);
  if (!value) return std::nullopt;
  const auto span = static_cast<double>((document.last_time() - document.first_time()).count());
  const double ns = share ? span * *value / 100 : *value * 1e9;
  return document.events_until(document.first_time() +
                               Nanoseconds{static_cast<std::int64_t>(std::clamp(ns, 0.0, span))});
}

TimeRange life_of(const Document& document, std::uint32_t allocation) {
  const std::uint32_t requested = document.requested(allocation);
  return {document.time(document.begin_of(allocation)),
          requested == never ? document.last_time() : document.time(requested)};
}

void step_event(const Document& document, Selection& selection, int by) {
  constexpr int most_tries = 1'000'000;  // of other heaps' events
  const auto end = static_cast<std::int64_t>(document.event_count());
  std::int64_t at = selection.cursor;
  for (int tries = 0; tries < most_tries; ++tries) {
    at += by;
    if (at < 1 || at > end) return;
    const auto id = document.allocation_of(static_cast<std::uint32_t>(at - 1));
    if (!id || document.heap_of(document.origin_of(*id)) == selection.heap) break;
  }
  selection.cursor = static_cast<std::uint32_t>(at);
  if (const auto id = document.allocation_of(selection.cursor - 1)) selection.select(document, *id);
  const Nanoseconds time = document.time(selection.cursor - 1);
  if (time >= selection.view.begin && time <= selection.view.end) return;
  const Nanoseconds half = selection.view.length() / 2;
  selection.look_at(document, {time - half, time + half});
}

void step_mark(const Document& document, Selection& selection, int by) {
  const ColumnView<std::uint32_t>& notable = document.columns.notable;
  if (notable.empty()) return;
  const std::uint32_t here = document.notables_before(selection.cursor);
  const auto instant = [&](std::int64_t row) {
    return document.columns.other[notable[static_cast<std::size_t>(row)]].at + 1;
  };
  std::int64_t row = by > 0 ? here : static_cast<std::int64_t>(here) - 1;
  if (by < 0 && row >= 0 && instant(row) == selection.cursor) --row;
  if (row < 0 || row >= static_cast<std::int64_t>(notable.size())) return;
  selection.cursor = instant(row);
}

void look_at_selected(const Document& document, Selection& selection) {
  const TimeRange before = selection.view;
  if (selection.marked) {
    selection.look_at(document, *selection.marked);
  } else if (selection.allocation) {
    const TimeRange life = life_of(document, *selection.allocation);
    const Nanoseconds margin = life.length() / 5 + Nanoseconds{10};
    selection.look_at(document, {life.begin - margin, life.end + margin});
  } else {
    selection.look_at_all(document);
  }
  if (before == selection.view) selection.look_at_all(document);
  selection.remember();
}

std::string why_no_failures(const Trace* trace) {
  const std::uint64_t unsized = trace == nullptr ? 0 : trace->losses.unsized_failures;
  if (unsized == 0) return "no request failed";
  return counted(unsized, "request") + " failed, but not when, nor of what size, was recorded";
}

}  // namespace memreel::viewer
