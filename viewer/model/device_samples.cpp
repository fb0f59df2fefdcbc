// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/device_samples.h"

#include <algorithm>

namespace memreel::viewer {
namespace {

OtherEvent sample_row(const Document& document, const HeapSeries& series, std::size_t i) {
  return document.other(series.samples[i]);
}

DeviceSample sample_at(const Document& document, const HeapSeries& series, std::size_t i) {
  const OtherEvent row = sample_row(document, series, i);
  return {.event = row.at, .used = row.event.size, .free = {row.event.value}};
}

/// The number of samples of `series` among the first `events` events.
std::size_t samples_before(const Document& document, const HeapSeries& series, std::uint32_t events) {
  std::size_t begin = 0;
  for (std::size_t end = series.samples.size(); begin < end;) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (sample_row(document, series, middle).at < events)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

}  // namespace

const HeapSeries* sampled_series(const Document& document, HeapId heap) {
  const Tables& tables = *document.tables;
  for (const HeapSeries& series : document.heaps)
    if (!series.samples.empty() && tables[series.heap].level == Level::driver &&
        tables[series.heap].device == tables[heap].device)
      return &series;
  const HeapSeries* const own = document.series(heap);
  return own != nullptr && !own->samples.empty() ? own : nullptr;
}

std::optional<DeviceSample> sample_before(const Document& document, const HeapSeries& series, std::uint32_t events) {
  const std::size_t before = samples_before(document, series, events);
  if (before == 0) return std::nullopt;
  return sample_at(document, series, before - 1);
}

std::optional<Bytes> unattributed(const Document& document, HeapId heap, std::uint32_t events) {
  const Tables& tables = *document.tables;
  const HeapSeries* const sampled = sampled_series(document, heap);
  if (sampled == nullptr || tables[sampled->heap].level != Level::driver) return std::nullopt;
  const auto sample = sample_before(document, *sampled, events);
  if (!sample) return std::nullopt;
  Bytes recorded{};
  for (const HeapSeries& series : document.heaps) {
    if (tables[series.heap].device != tables[heap].device) continue;
    const Metrics metrics = document.metrics_after(series, sample->event + 1);
    if (series.has_segments)
      recorded += Bytes{value_of(metrics, Metric::reserved)};
    else if (tables[series.heap].level == Level::driver)
      recorded += Bytes{value_of(metrics, Metric::held)};
  }
  return sample->used - std::min(sample->used, recorded);
}

std::optional<Bytes> sampled_limit(const Document& document, HeapId heap) {
  const HeapSeries* const sampled = sampled_series(document, heap);
  if (sampled == nullptr) return std::nullopt;
  const DeviceSample sample = sample_at(document, *sampled, 0);
  return sample.used + sample.free;
}

std::vector<FreeColumn> free_columns(const Document& document, const HeapSeries& series, Nanoseconds begin,
                                     Nanoseconds end, std::uint32_t width) {
  const double step = static_cast<double>((end - begin).count()) / std::max(width, 1U);
  std::vector<Nanoseconds> edges;
  for (std::uint32_t x = 0; x < width; ++x) edges.push_back(begin + Nanoseconds{static_cast<std::int64_t>(step * x)});
  edges.push_back(end);
  return free_columns(document, series, edges);
}

std::vector<FreeColumn> free_columns(const Document& document, const HeapSeries& series,
                                     std::span<const Nanoseconds> edges) {
  if (edges.size() < 2) return {};
  const auto width = static_cast<std::uint32_t>(edges.size() - 1);
  const Nanoseconds begin = edges.front(), end = edges.back();
  std::vector<FreeColumn> columns(width);
  if (series.samples.empty() || end <= begin) return columns;
  std::size_t next = samples_before(document, series, document.events_until(begin - Nanoseconds{1}));
  FreeColumn now;
  if (next != 0) {
    const std::uint64_t free = sample_at(document, series, next - 1).free.count;
    now = {.least = free, .most = free, .known = true};
  }
  for (std::uint32_t x = 0; x < width; ++x) {
    const Nanoseconds until = edges[x + 1];
    FreeColumn column = now;
    for (; next < series.samples.size(); ++next) {
      const DeviceSample sample = sample_at(document, series, next);
      if (x + 1 != width && document.time(sample.event) >= until) break;
      if (document.time(sample.event) > end) break;
      const std::uint64_t free = sample.free.count;
      now = {.least = free, .most = free, .known = true};
      column =
          column.known
              ? FreeColumn{.least = std::min(column.least, free), .most = std::max(column.most, free), .known = true}
              : now;
    }
    columns[x] = column;
  }
  return columns;
}

namespace {

// The higher of two machines' costs for an event, including CUPTI's own share.
constexpr double nanoseconds_with_stack = 600, nanoseconds_without = 230;

}  // namespace

std::optional<double> recording_share(const Document& document) {
  if (document.trace->header.source != "cupti" || document.empty()) return std::nullopt;
  const auto span = static_cast<double>((document.last_time() - document.first_time()).count());
  if (span <= 0) return std::nullopt;
  const bool has_stacks = document.tables->stacks.size() > 1;
  return document.event_count() * (has_stacks ? nanoseconds_with_stack : nanoseconds_without) / span;
}

}  // namespace memreel::viewer
