#include <algorithm>
#include <numeric>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/list_panes.h"

namespace memreel::viewer {

SegmentsPane::SegmentsPane()
    : table_("segments", {{"size", 100, true, 0},
                          {"in use", 100, true, 1},
                          {"rounding", 90, true, 5},
                          {"blocks", 80, true, 2},
                          {"largest free", 110, true, 3},
                          {"address", 140, true, 4},
                          {"kind", 70, false},
                          {"pool", 140, false},
                          {"stream", 0, false}}) {
  table_.set_sort(0, true);
}

const HeapAt& SegmentsPane::heap_shown(Scene& scene) {
  const Document& document = scene.doc();
  const HeapSeries* const series = scene.series();
  if (!scene.selection.marked || series == nullptr) return scene.heap;
  const auto [first, end] = scene.selection.listed(document);
  if (first >= end) return scene.heap;
  const std::uint32_t event = document.highest(*series, Metric::reserved, first, end) + 1;
  const auto rounding = scene.rounding.value();
  if (fullest_.event != event || fullest_.heap != series->heap || fullest_version_ != document.event_count() ||
      fullest_rounding_ != rounding) {
    fullest_ = heap_at(document, series->heap, event, rounding.get());
    fullest_version_ = document.event_count();
    fullest_rounding_ = rounding;
  }
  return fullest_;
}

void SegmentsPane::draw(Scene& scene) {
  const HeapAt& heap = heap_shown(scene);
  shown_event_ = heap.event;
  const std::vector<HeldSegment>& segments = heap.segments;
  if (segments.empty()) {
    const Area area = take_area("segments");
    note_place(scene, "segments", area);
    explain(scene, area, scene.selection.marked ? "No segments in the range." : "No segments at the cursor.",
            "Click the timeline where memory is reserved.");
    return;
  }
  if (scene.selection.marked)
    ImGui::TextDisabled("at the reserved peak of the range: event %s", text_of(std::uint64_t{heap.event}).c_str());
  std::vector<std::uint32_t> order(segments.size());
  std::iota(order.begin(), order.end(), 0U);
  const int by = table_.sort().value_or(0);
  const auto key = [&](std::uint32_t i) -> std::uint64_t {
    const HeldSegment& s = segments[i];
    switch (by) {
      case 1:
        return s.held.count;
      case 2:
        return s.blocks;
      case 3:
        return s.largest_gap_size.count;
      case 4:
        return s.address.value;
      case 5:
        return s.rounding.count;
      default:
        return s.size.count;
    }
  };
  std::ranges::stable_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return table_.descending() ? key(a) > key(b) : key(a) < key(b); });
  Rows rows;
  rows.count = order.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const HeldSegment& s = segments[order[row]];
    const Origin& origin = scene.tables()[s.origin];
    switch (column) {
      case 0:
        return text_of(s.size);
      case 1:
        return text_of(s.held);
      case 2:
        return heap.rounding ? text_of(s.rounding) : "not known";
      case 3:
        return text_of(std::uint64_t{s.blocks});
      case 4:
        return text_of(s.largest_gap_size);
      case 5:
        return address_text(s.address);
      case 6:
        return s.mapped ? "mapped" : "segment";
      case 7:
        return pool_label(scene.tables(), origin.pool);
      default:
        return stream_label(scene.tables(), origin.stream);
    }
  };
  rows.highlighted = [&](std::uint64_t row) {
    if (!scene.selection.hovered_allocation) return false;
    const HeldSegment& s = segments[order[row]];
    const Address at{scene.doc().columns.address[*scene.selection.hovered_allocation]};
    return at >= s.address && at < s.end();
  };
  rows.on_click = [&](std::uint64_t row) {
    // Its largest block, which most likely pins it.
    const HeldSegment& s = segments[order[row]];
    const HeldBlock* largest = nullptr;
    for (std::uint32_t b = s.first_block; b < s.first_block + s.blocks; ++b)
      if (largest == nullptr || heap.blocks[b].size > largest->size) largest = &heap.blocks[b];
    if (largest != nullptr) scene.selection.select(scene.doc(), largest->allocation);
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
