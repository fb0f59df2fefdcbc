#include "viewer/panes/heap_pane.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/map_pane.h"

namespace memreel::viewer {
namespace {

using Lane = std::pair<PoolId, StreamId>;

/// Where segments go: lanes of rows, all of one scale, broken where the pane ends.
struct Placed {
  Area area;
  std::uint32_t segment = 0;
};
struct LaneTitle {
  float y = 0;
  std::string label;
};
struct Layout {
  std::vector<Placed> segments;
  std::vector<LaneTitle> titles;
  float height = 0;
};

Layout arrange(Scene& scene, float width, double bytes_per_pixel) {
  std::map<Lane, std::vector<std::uint32_t>> lanes;
  for (std::uint32_t s = 0; s < scene.heap.segments.size(); ++s) {
    const Origin& origin = scene.tables()[scene.heap.segments[s].origin];
    lanes[{origin.pool, origin.stream}].push_back(s);
  }
  Layout layout;
  const float row = scene.px(16), gap = scene.px(3);
  float y = 0;
  for (const auto& [lane, segments] : lanes) {
    Bytes reserved{}, held{};
    for (const std::uint32_t s : segments) {
      reserved += scene.heap.segments[s].size;
      held += scene.heap.segments[s].held;
    }
    layout.titles.push_back(
        {y, pool_label(scene.tables(), lane.first) + ",  " + stream_label(scene.tables(), lane.second) + "   " +
                text_of(reserved) + " in " + std::to_string(segments.size()) +
                (segments.size() == 1 ? " segment,  " : " segments,  ") + text_of(held) + " in use"});
    y += ImGui::GetTextLineHeight() + scene.px(2);
    float x = 0;
    for (const std::uint32_t s : segments) {
      double left = std::max(static_cast<double>(scene.px(4)),
                             static_cast<double>(scene.heap.segments[s].size.count) / bytes_per_pixel);
      // A segment that is wider than the pane is cut into rows.
      bool first = true;
      while (left > 0) {
        if (x > 0 && x + static_cast<float>(left) > width && (first || x >= width)) {
          x = 0;
          y += row + gap;
        }
        const float piece = std::min(static_cast<float>(left), width - x);
        layout.segments.push_back({{x, y, x + piece, y + row}, s});
        left -= static_cast<double>(piece);
        x += piece + gap;
        first = false;
        if (left < 1e-3) break;
        x = width;
      }
    }
    y += row + scene.px(8);
  }
  layout.height = y;
  return layout;
}

/// Bytes for a pixel such that the lane that has most fills a line.
double widest_lane(Scene& scene, float width) {
  std::map<Lane, std::pair<double, float>> lanes;  // bytes, and pixels of the gaps
  for (const HeldSegment& segment : scene.heap.segments) {
    const Origin& origin = scene.tables()[segment.origin];
    auto& [bytes, gaps] = lanes[{origin.pool, origin.stream}];
    bytes += static_cast<double>(segment.size.count);
    gaps += scene.px(3);
  }
  double most = 1;
  for (const auto& [lane, sum] : lanes)
    most = std::max(most, sum.first / static_cast<double>(std::max(width - sum.second, width / 2)));
  return most;
}

}  // namespace

void HeapPane::draw_title(Scene& scene) {
  const HeapAt& heap = scene.heap;
  const Document& document = scene.doc();
  std::string title = "heap at event " + text_of(std::uint64_t{heap.event});
  if (heap.largest_hole) title += "   largest hole " + text_of(heap.segments[*heap.largest_hole].largest_hole_size);
  if (heap.largest_hole && !heap.pin_before && !heap.pin_after) title += ", all of a segment";
  ImGui::TextDisabled("%s", title.c_str());
  const char* word = " pinned by";
  const auto pin = [&](const std::optional<std::uint32_t>& block, const char* name) {
    if (!block) return;
    const HeldBlock& b = heap.blocks[*block];
    const std::string who = text_of(b.size) + "  " + stack_label(scene.tables(), document.stack_of(b.allocation));
    const float right = ImGui::GetWindowPos().x + ImGui::GetContentRegionMax().x;
    const float room = right - ImGui::GetItemRectMax().x - ImGui::CalcTextSize(word).x - scene.px(26);
    if (room < scene.px(40)) return;
    const std::string shown = fitting(who, room);
    ImGui::SameLine(0, scene.px(4));
    ImGui::TextDisabled("%s", word);
    word = " and";
    ImGui::SameLine(0, scene.px(6));
    ImGui::PushID(name);
    if (ImGui::SmallButton(shown.c_str())) {
      scene.selection.select(document, b.allocation);
      scene.selection.remember();
    }
    ImGui::PopID();
    note_item(scene, name);
    if (ImGui::IsItemHovered()) scene.selection.hover(b.allocation);
  };
  pin(heap.pin_before, "heap/pin before");
  pin(heap.pin_after, "heap/pin after");
}

void HeapPane::draw(Scene& scene, Verdicts& verdicts) {
  const HeapAt& heap = scene.heap;
  draw_title(scene);
  colour_of_ = colours_of(scene, scene.selection.colour == MapColour::verdict ? verdicts.ask(scene) : nullptr);
  const Area area = take_area("heap");
  note_place(scene, "heap", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  if (heap.segments.empty()) {
    explain(scene, area,
            scene.course() != nullptr && scene.course()->has_segments ? "No segments at this instant."
                                                                      : "This trace has no segments.",
            heap.blocks.empty() ? "Move the cursor: click the timeline, or press . and ,"
                                : "The allocation map shows its allocations.");
    return;
  }
  // The scale at which everything just fits, by halving.
  const float width = std::max(area.width() - scene.px(12), scene.px(12));
  double low = 1, high = static_cast<double>(heap.reserved.count) + 1;
  for (int i = 0; i < 24; ++i) {
    const double middle = std::sqrt(low * high);
    (arrange(scene, width, middle).height > area.height() ? low : high) = middle;
  }
  // Where there are more lanes than lines, each has one, and the rest is scrolled to.
  if (arrange(scene, width, high).height > area.height()) high = widest_lane(scene, width);
  if (ImGui::IsItemHovered() && ImGui::GetIO().MouseWheel != 0) {
    if (ImGui::GetIO().KeyCtrl)
      zoom_ = std::clamp(zoom_ * std::pow(1.25, static_cast<double>(ImGui::GetIO().MouseWheel)), 1.0, 4096.0);
    else
      scroll_ -= scene.px(40) * ImGui::GetIO().MouseWheel;
  }
  const Layout layout = arrange(scene, width, high / zoom_);
  scroll_ = std::clamp(scroll_, 0.0F, std::max(0.0F, layout.height - area.height()));
  list.PushClipRect(area.min(), area.max(), true);
  const float left = area.left + scene.px(6), top = area.top + scene.px(4) - scroll_;
  for (const LaneTitle& lane : layout.titles)
    text(list, {left, top + lane.y}, scene.theme.faint, fitting(lane.label, width));

  // Pieces of a segment, in order, share its bytes by their width.
  for (std::size_t i = 0; i < layout.segments.size();) {
    std::size_t end = i + 1;
    float total = layout.segments[i].area.width();
    while (end < layout.segments.size() && layout.segments[end].segment == layout.segments[i].segment)
      total += layout.segments[end++].area.width();
    float before = 0;
    for (; i < end; ++i) {
      const Placed& piece = layout.segments[i];
      const Area on_screen{left + piece.area.left, top + piece.area.top, left + piece.area.right,
                           top + piece.area.bottom};
      if (on_screen.bottom >= area.top && on_screen.top <= area.bottom) {
        list.PushClipRect(on_screen.min(), on_screen.max(), true);
        draw_segment(scene, list,
                     {on_screen.left - before, on_screen.top, on_screen.left - before + total, on_screen.bottom},
                     piece.segment);
        list.PopClipRect();
      }
      before += piece.area.width();
    }
  }
  list.PopClipRect();
  if (layout.height <= area.height()) return;
  const float all = layout.height, right = area.right - scene.px(2);
  list.AddRectFilled({right - scene.px(4), area.top + area.height() * scroll_ / all},
                     {right, area.top + area.height() * (scroll_ + area.height()) / all}, scene.theme.faint,
                     scene.px(2));
}

void HeapPane::draw_segment(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number) {
  Selection& selection = scene.selection;
  const HeldSegment& segment = scene.heap.segments[number];
  const Document& document = scene.doc();
  fill(list, area, scene.theme.segment);
  const double pixels_per_byte = static_cast<double>(area.width()) / static_cast<double>(segment.size.count);
  const auto x_of = [&](Address address) {
    return area.left + static_cast<float>(static_cast<double>((address - segment.address).count) * pixels_per_byte);
  };
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool pointed = ImGui::IsItemHovered() && ImGui::IsMouseHoveringRect(area.min(), area.max());
  float drawn_to = area.left - 1;
  for (std::uint32_t b = segment.first_block; b < segment.first_block + segment.blocks; ++b) {
    const HeldBlock& block = scene.heap.blocks[b];
    const float left = x_of(block.address), right = std::max(x_of(block.end()), left + 1);
    const bool marked = selection.allocation == block.allocation || selection.highlights(document, block.allocation);
    if (pointed && mouse.x >= left && mouse.x < right) {
      selection.hover(block.allocation);
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
        selection.select(document, block.allocation);
        selection.remember();
      }
    }
    const bool pins = scene.heap.pin_before == b || scene.heap.pin_after == b;
    if (right <= drawn_to && !marked && !pins) continue;  // under what is drawn
    const Colour colour = colour_of_(block.allocation);
    const float gap = right - left > 3 ? 1.0F : 0.0F;
    fill(list, {left, area.top, right - gap, area.bottom},
         block.pending ? mix(colour, scene.theme.segment, 0.55) : colour);
    if (pins) outline(list, {left, area.top, right, area.bottom}, scene.theme.accent, scene.px(2));
    if (marked) outline(list, {left, area.top, right, area.bottom}, scene.theme.selection, scene.px(1.5));
    drawn_to = std::max(drawn_to, std::floor(right));
  }
  if (scene.heap.largest_hole == number) {
    const float left = x_of(segment.largest_hole), right = x_of(segment.largest_hole + segment.largest_hole_size);
    const Area hole{left, area.top, std::max(right, left + 3), area.bottom};
    outline(list, hole, scene.theme.accent, scene.px(2));
    list.AddLine({hole.left, hole.bottom}, {hole.right, hole.top}, with_alpha(scene.theme.accent, 0x80), scene.px(1));
    list.AddLine({hole.left, hole.top}, {hole.right, hole.bottom}, with_alpha(scene.theme.accent, 0x80), scene.px(1));
  }
  if (pointed) {
    ImGui::BeginTooltip();
    ImGui::TextUnformatted((text_of(segment.size) + " at " + address_text(segment.address)).c_str());
    ImGui::TextDisabled("%s in use in %s blocks, largest hole %s", text_of(segment.held).c_str(),
                        text_of(std::uint64_t{segment.blocks}).c_str(), text_of(segment.largest_hole_size).c_str());
    ImGui::EndTooltip();
  }
}

}  // namespace memreel::viewer
