// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/device_panes.h"

#include <algorithm>
#include <string>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

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

}  // namespace memreel::viewer
