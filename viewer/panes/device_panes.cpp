// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/time_panes.h"

namespace memreel::viewer {
namespace {

std::string name_of_device(const DeviceMemory& device) {
  if (device.device < 0) return "host memory";
  return "device " + std::to_string(device.device) + (device.has_driver ? "" : " (its pools: no calls of the driver)");
}

}  // namespace

DevicesPane::DevicesPane()
    : table_("devices", {{"peak", 100, true},
                         {"device's peak", 110, true},
                         {"of parent", 80, true},
                         {"itself", 100, true},
                         {"live", 100, true},
                         {"heap", 0, false}}) {}

void DevicesPane::list(const std::shared_ptr<const Findings>& findings) {
  if (of_ == findings) return;
  of_ = findings;
  rows_.clear();
  const auto add = [&](bool on_host) {
    for (const DeviceMemory& device : findings->devices) {
      if (device.heaps.empty() || (device.device < 0) != on_host) continue;
      rows_.push_back({.device = &device, .heap = {}});
      for (const DeviceTreeRow& heap : tree_rows(device)) rows_.push_back({.device = &device, .heap = heap});
    }
  };
  add(false);
  add(true);
}

void DevicesPane::draw(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.get(scene, "devices");
  if (!findings) return;
  list(findings);
  if (rows_.empty()) {
    const Area area = take_area("devices");
    note_place(scene, "devices", area);
    return explain(scene, area, "No memory of a device is recorded.");
  }
  Rows rows;
  rows.count = rows_.size();
  rows.of = findings;
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const auto& [device, heap] = rows_[row];
    const DeviceInstant& peak = device->peak_held;
    const bool whole = heap.heap == HeapId::none && heap.node == TreeNode::heap;
    switch (column) {
      case 0:
        return text_of(whole ? peak.held : heap.peak);
      case 1:
        return text_of(whole ? peak.held : heap.whole);
      case 2:
        return whole || heap.around == 0_B ? "" : text_of_share(share_of(heap.whole, heap.around));
      case 3:
        return whole ? "" : text_of(heap.itself);
      case 4:
        return heap.node > TreeNode::part ? "" : text_of(whole ? peak.live : heap.live);
      default:
        break;
    }
    if (whole) return name_of_device(*device);
    return std::string(4 * (std::size_t{heap.depth} + 1), ' ') + name_of(scene.tables(), heap);
  };
  rows.selected = [&](std::uint64_t row) {
    return rows_[row].heap.node == TreeNode::heap && rows_[row].heap.heap == scene.selection.heap;
  };
  rows.on_click = [&](std::uint64_t row) {
    const auto& [device, heap] = rows_[row];
    if (scene.doc().series(heap.heap) != nullptr && heap.heap != scene.selection.heap) {
      scene.selection.clear();
      scene.selection.heap = heap.heap;
    }
    scene.selection.cursor = std::min(device->peak_held.event + 1, scene.doc().event_count());
    scene.selection.remember();
  };
  table_.draw(scene, rows);
}

TagsPane::TagsPane()
    : table_("tags", {{"peak", 100, true, 0}, {"at", 100, true, 1}, {"allocations", 100, true, 2}, {"tag", 0, false}}) {
  table_.set_sort(0, true);
}

void TagsPane::draw(Scene& scene, Verdicts& verdicts) {
  listed_ = 0;
  const auto findings = verdicts.get(scene, "tags");
  if (!findings) return;
  const auto found = std::ranges::find(findings->tags, scene.selection.heap, &HeapTags::heap);
  if (found == findings->tags.end()) {
    const Area area = take_area("tags");
    note_place(scene, "tags", area);
    return explain(scene, area, "No tag was open when this heap allocated.",
                   "Tags are ranges of memreel_tag_push, NVTX or torch.profiler.record_function.");
  }
  const std::vector<GroupPeak>& tags = found->peaks;
  listed_ = tags.size();
  const auto event = [&](std::uint64_t row) {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(tags[row].events, 1, scene.doc().event_count()));
  };
  Rows rows;
  rows.count = tags.size();
  rows.of = findings;
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    switch (column) {
      case 0:
        return text_of(tags[row].peak);
      case 1:
        return time_text(scene.doc().time(event(row) - 1) - scene.doc().first_time(), Nanoseconds{1000});
      case 2:
        return text_of(tags[row].count);
      default:
        return tags[row].label;
    }
  };
  rows.key = [&](std::uint64_t row, int sort) {
    return static_cast<double>(sort == 0 ? tags[row].peak.count : sort == 1 ? tags[row].events : tags[row].count);
  };
  rows.on_click = [&](std::uint64_t row) {
    scene.selection.cursor = event(row);
    scene.selection.split = SplitBy::tag;
    scene.selection.remember();
  };
  table_.draw(scene, rows);
}

namespace {

constexpr std::size_t most_heaps = 64;  // visited in a frame at most

/// By device, each device's largest first.
std::vector<const HeapSeries*> ordered_heaps(const Document& document) {
  std::vector<const HeapSeries*> heaps;
  for (const HeapSeries& series : document.heaps) heaps.push_back(&series);
  const auto order = [&](const HeapSeries* series) {
    return std::pair{(*document.tables)[series->heap].device, ~std::max(series->peak_reserved, series->peak_live)};
  };
  std::ranges::stable_sort(heaps, {}, order);
  if (heaps.size() > most_heaps) heaps.resize(most_heaps);
  return heaps;
}

/// The part of the pane with the time axis: the timeline's, so that both have the same edges; names are beside it.
Area time_area(const Scene& scene, const Area& row) {
  const auto timeline = scene.places.find("timeline");
  if (timeline != scene.places.end()) {
    const ImVec4& place = timeline->second;
    if (place.x >= row.left && row.right - (place.x + place.z) > scene.px(120))
      return {place.x, row.top, place.x + place.z, row.bottom};
  }
  return {row.left, row.top, std::max(row.right - scene.px(260), row.left + scene.px(60)), row.bottom};
}

}  // namespace

void HeapsPane::draw(Scene& scene) {
  const Document& document = scene.doc();
  for (const bool one : {true, false}) {
    if (radio_button(scene, one ? "heaps/same scale" : "heaps/own scales", one_scale_ == one)) one_scale_ = one;
    ImGui::SameLine();
  }
  ImGui::TextDisabled("   reserved and live bytes of each heap; click: show it");
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "heaps", {at.x, at.y, at.x + size.x, at.y + size.y});
  const Area whole = time_area(scene, {at.x, at.y, at.x + size.x, at.y + size.y});
  const Key key{scene.selection.view, scene.selection.axis, static_cast<std::uint32_t>(std::max(whole.width(), 1.0F)),
                document.event_count()};
  rows_.request(
      key,
      [document = scene.document, key](const Progress& progress) -> std::optional<Rows> {
        const std::vector<Nanoseconds> edges = key.axis.edges(key.view.begin, key.view.end, key.width);
        Rows rows;
        for (const HeapSeries* const series : ordered_heaps(*document)) {
          if (progress.cancelled()) return std::nullopt;
          rows.push_back({series->heap, series_columns(*document, *series, edges)});
        }
        return rows;
      },
      false);
  if (!rows_.is_current()) scene.busy = true;
  shown_ = rows_.value();
  if (!shown_) return;
  std::uint64_t most = 1;
  for (const Row& row : *shown_) most = std::max(most, highest(row.columns));
  ImGui::BeginChild("rows");
  const float gap = scene.px(4), least = 2 * ImGui::GetTextLineHeight() + scene.px(6);
  const float room = ImGui::GetContentRegionAvail().y / static_cast<float>(std::max<std::size_t>(shown_->size(), 1));
  const float height = std::max(room - gap, least);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, gap});
  for (const Row& row : *shown_) {
    const ImVec2 from = ImGui::GetCursorScreenPos();
    ImGui::PushID(static_cast<int>(index(row.heap)));
    const Area area{from.x, from.y, from.x + ImGui::GetContentRegionAvail().x, from.y + height};
    ImGui::InvisibleButton("heap", {std::max(area.width(), 1.0F), height},
                           ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    if (ImGui::IsItemVisible())
      draw_row(scene, row, area, (one_scale_ ? most : std::max<std::uint64_t>(highest(row.columns), 1)) * 13 / 12);
    ImGui::PopID();
  }
  ImGui::PopStyleVar();
  ImGui::EndChild();
}

void HeapsPane::draw_row(Scene& scene, const Row& row, const Area& area, std::uint64_t top) {
  const Document& document = scene.doc();
  const HeapSeries* const series = document.series(row.heap);
  if (series == nullptr) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Area plot = time_area(scene, area);
  const bool chosen = scene.selection.heap == row.heap;
  const std::string name = "heaps/" + std::to_string(index(row.heap));
  note_place(scene, name, plot);
  scene.focus.add(name, FocusKind::drawn, plot.min(), plot.max());
  const TimeAxis axis(scene.selection.view, plot, scene.selection.axis);
  fill(list, plot, scene.theme.ground);
  list.PushClipRect(plot.min(), plot.max(), true);
  const Key& key = *rows_.key();
  const double left = axis.exact_x_of(key.view.begin);
  const double step = (axis.exact_x_of(key.view.end) - left) / std::max(key.width, 1U);
  draw_series(scene.theme, list, plot, top, row.columns, series->has_pending,
              [&](std::size_t x) { return static_cast<float>(left + step * static_cast<double>(x)); });
  label(scene, list, {plot.left + scene.px(6), plot.top + scene.px(2)}, tick_text(top * 12 / 13));
  draw_instants(scene, list, axis, plot);
  list.PopClipRect();
  if (chosen) outline(list, plot, scene.theme.accent, scene.px(1.5));

  const float room = area.right - plot.right - scene.px(12), x = plot.right + scene.px(12);
  const Metrics now = document.metrics_after(*series, scene.selection.cursor);
  const auto line = [&](int number, Colour colour, const std::string& what) {
    text(list, {x, area.top + static_cast<float>(number) * ImGui::GetTextLineHeight()}, colour, fitting(what, room));
  };
  line(0, chosen ? scene.theme.text : scene.theme.faint, heap_label(scene.tables(), row.heap));
  const std::string live = text_of(Bytes{value_of(now, Metric::live)}) + " live";
  line(1, scene.theme.faint,
       series->has_segments ? live + " of " + text_of(Bytes{value_of(now, Metric::reserved)}) : live);
  if (area.height() > 3 * ImGui::GetTextLineHeight())
    line(2, scene.theme.faint, "peak " + text_of(Bytes{std::max(series->peak_live, series->peak_reserved)}));
  const bool clicked = ImGui::IsItemDeactivated() && ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !was_dragged();
  if ((clicked || scene.focus.takes(name)) && !chosen) {
    scene.selection.heap = row.heap;
    scene.selection.clear();
  }
  navigate(scene, axis, plot, plot.contains(ImGui::GetIO().MousePos));
}

}  // namespace memreel::viewer
