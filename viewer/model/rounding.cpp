#include "viewer/model/rounding.h"

#include <algorithm>

#include "analyzer/insight/block_sizes.h"
#include "viewer/model/completed_file.h"

namespace memreel::viewer {
namespace {

Event event_at(const Document& document, std::uint32_t at) {
  const std::uint64_t target = document.columns.target[at];
  if (target_kind(target) == EventTarget::other) return document.columns.other[target_row(target)].event;
  const std::uint32_t id = target_row(target);
  return {.kind = document.kind(at),
          .origin = document.origin_of(id),
          .allocation = AllocationId{id},
          .address = {document.columns.address[id]},
          .size = document.size_of(id)};
}

}  // namespace

bool Rounding::is_known(HeapId heap) const { return std::ranges::find(heaps, heap) != heaps.end(); }

Bytes Rounding::of(std::uint32_t allocation) const {
  return allocation < extra.size() ? Bytes{extra[allocation]} : Bytes{};
}

bool has_known_rounding(const Document& document) {
  return document.event_count() <= longest_in_memory &&
         std::ranges::any_of(document.heaps,
                             [&](const HeapSeries& series) { return is_torch_heap(*document.tables, series.heap); });
}

std::optional<Rounding> find_rounding(const Document& document, const Progress& progress) {
  BlockSizes sizes(*document.tables);
  GrowingPacked extra;
  for (std::uint32_t at = 0; at < document.event_count(); ++at) {
    if (at % (1U << 16U) == 0) {
      if (progress.cancelled()) return std::nullopt;
      progress.set(static_cast<double>(at) / document.event_count());
    }
    const Event event = event_at(document, at);
    if (const auto taken = sizes.see(event)) extra.push_back((*taken - event.size).count);
  }
  Rounding rounding{.heaps = {}, .extra = extra.view()};
  for (const HeapSeries& series : document.heaps)
    if (is_torch_heap(*document.tables, series.heap)) rounding.heaps.push_back(series.heap);
  return rounding;
}

}  // namespace memreel::viewer
