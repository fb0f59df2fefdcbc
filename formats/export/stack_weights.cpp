// SPDX-License-Identifier: Apache-2.0
#include "formats/export/stack_weights.h"

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>

#include "formats/export/row.h"
#include "formats/model/flat_map.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {

std::vector<bool> device_heaps(const Tables& tables) {
  std::vector<bool> shown(tables.heaps.size());
  const bool on_host = std::ranges::none_of(std::span(tables.heaps).subspan(std::min<std::size_t>(1, shown.size())),
                                            [](const Heap& heap) { return heap.device >= 0; });
  for (std::uint32_t h = 1; h < shown.size(); ++h)
    shown[h] = (on_host || tables.heaps[h].device >= 0) && tables[tables.heaps[h].parent].level == Level::driver;
  return shown;
}

std::string heap_label(const Tables& tables, HeapId heap) {
  const std::int32_t device = tables[heap].device;
  return (device < 0 ? "host memory" : "device " + std::to_string(device)) + " " + utf8(tables[tables[heap].name]);
}

std::string frame_label(const Tables& tables, FrameId frame) {
  const FrameText text = frame_text(tables, frame);
  if (!text.function.empty()) return utf8(text.function);
  if (text.module_path.empty()) return "(unknown)";
  return utf8(base_name(text.module_path)) + "+" + hexadecimal(tables[frame].module_offset);
}

namespace {

struct Site {
  StackId stack = StackId::none;
  OriginId origin = OriginId::none;
  std::string_view category, phase;
  friend bool operator==(const Site&, const Site&) = default;
};
struct SiteHash {
  std::uint64_t operator()(const Site& site) const {
    const std::hash<std::string_view> hash;
    return mix_bits((std::uint64_t{index(site.stack)} << 32U | index(site.origin)) + hash(site.category) +
                    3 * hash(site.phase));
  }
};

/// Whether the event begins or ends an allocation in the trace.
bool is_of_allocation(const Events& events, std::size_t i) {
  const EventKind kind = events.kind(i);
  return (kind == EventKind::alloc || kind == EventKind::free_requested) && events.allocation(i) != AllocationId::none;
}

/// By HeapId: how many events had happened at the heap's peak.
std::vector<std::uint64_t> events_until_peak(const Trace& trace) {
  struct Series {
    Bytes live, peak;
    std::uint64_t events = 0;
  };
  const Events& events = trace.events;
  std::vector<Series> all_series(trace.tables.heaps.size());
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (!is_of_allocation(events, i)) continue;
    const std::uint32_t begin = trace.events.begin_of(events.allocation(i));
    Series& series = all_series[index(trace.tables[events.origin(begin)].heap)];
    if (events.kind(i) != EventKind::alloc) {
      series.live -= events.size(begin);
      continue;
    }
    series.live += events.size(begin);
    if (series.live <= series.peak) continue;
    series.peak = series.live;
    series.events = i + 1;
  }
  std::vector<std::uint64_t> until;
  for (const Series& series : all_series) until.push_back(series.events);
  return until;
}

}  // namespace

std::vector<StackWeight> stack_weights(const Trace& trace, std::optional<std::uint64_t> events_shown,
                                       const AllocationNotes& notes) {
  const Events& events = trace.events;
  const std::vector<std::uint64_t> until =
      events_shown ? std::vector(trace.tables.heaps.size(), *events_shown) : events_until_peak(trace);
  FlatMap<Site, SiteHash> numbers;
  std::vector<StackWeight> weights;
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (!is_of_allocation(events, i)) continue;
    const std::uint32_t begin = trace.events.begin_of(events.allocation(i));
    const std::uint32_t id = index(events.allocation(i));
    const auto noted = [&](std::span<const std::string_view> texts) { return texts.empty() ? "" : texts[id]; };
    const Site site{.stack = events.stack(begin),
                    .origin = events.origin(begin),
                    .category = noted(notes.category),
                    .phase = noted(notes.phase)};
    if (i >= until[index(trace.tables[site.origin].heap)]) continue;
    std::uint32_t number = numbers.find(site);
    if (number == absent) {
      number = static_cast<std::uint32_t>(weights.size());
      numbers.put(site, number);
      weights.push_back({.stack = site.stack,
                         .origin = site.origin,
                         .category = site.category,
                         .layer = noted(notes.layer),
                         .phase = site.phase});
    }
    StackWeight& weight = weights[number];
    if (events.kind(i) == EventKind::alloc) {
      ++weight.made;
      ++weight.live;
      weight.made_bytes += events.size(begin);
      weight.live_bytes += events.size(begin);
    } else {
      --weight.live;
      weight.live_bytes -= events.size(begin);
    }
  }
  std::sort(weights.begin(), weights.end(), [](const StackWeight& a, const StackWeight& b) {
    return std::tie(a.stack, a.origin, a.category, a.phase) < std::tie(b.stack, b.origin, b.category, b.phase);
  });
  return weights;
}

}  // namespace memreel
