// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/instant_panes.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/analysis/insight/heap_map.h"
#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/model/source.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

/// Segments of one lane, in the order on screen.
struct LaneOf {
  std::vector<std::uint32_t> segments;
  Bytes reserved, held, rounding;
};
using Lanes = std::map<std::pair<PoolId, StreamId>, LaneOf>;

Lanes lanes_of(const Scene& scene) {
  Lanes lanes;
  for (const std::uint32_t s : ordered_segments(scene.heap, scene.heap_order)) {
    const HeldSegment& segment = scene.heap.segments[s];
    const Origin& origin = scene.tables()[segment.origin];
    LaneOf& lane = lanes[{origin.pool, origin.stream}];
    lane.segments.push_back(s);
    lane.reserved += segment.size;
    lane.held += segment.held;
    lane.rounding += segment.rounding;
  }
  return lanes;
}

/// Calls `place(area, segment)` for every piece of a segment and `title(y, lane)` for every lane. Lanes consist of rows
/// on one scale, wrapped at the pane's edge. Returns the total height.
template <class Place, class Title>
float arrange(const Scene& scene, const Lanes& lanes, float width, double bytes_per_pixel, const Place& place,
              const Title& title) {
  const float row = scene.px(16), gap = scene.px(3);
  float y = 0;
  for (const auto& lane : lanes) {
    title(y, lane);
    y += ImGui::GetTextLineHeight() + scene.px(2);
    float x = 0;
    for (const std::uint32_t s : lane.second.segments) {
      double left = std::max(static_cast<double>(scene.px(4)),
                             static_cast<double>(scene.heap.segments[s].size.count) / bytes_per_pixel);
      // A segment wider than the pane is split into rows.
      bool first = true;
      while (left > 0) {
        if (x > 0 && x + static_cast<float>(left) > width && (first || x >= width)) {
          x = 0;
          y += row + gap;
        }
        const float piece = std::min(static_cast<float>(left), width - x);
        place(Area{x, y, x + piece, y + row}, s);
        left -= static_cast<double>(piece);
        x += piece + gap;
        first = false;
        if (left < 1e-3) break;
        x = width;
      }
    }
    y += row + scene.px(8);
  }
  return y;
}

/// Bytes per pixel such that the largest lane fills a line.
double widest_lane(const Scene& scene, const Lanes& lanes, float width) {
  double most = 1;
  for (const auto& [name, lane] : lanes) {
    const float gaps = scene.px(3) * static_cast<float>(lane.segments.size());
    most = std::max(most,
                    static_cast<double>(lane.reserved.count) / static_cast<double>(std::max(width - gaps, width / 2)));
  }
  return most;
}

/// Bytes per pixel such that everything just fits, found by bisection. If there are more lanes than lines, each gets
/// one, and the pane scrolls.
double fitting_scale(const Scene& scene, const Lanes& lanes, float width, float height) {
  const auto fits = [&](double bytes_per_pixel) {
    return arrange(
               scene, lanes, width, bytes_per_pixel, [](const Area&, std::uint32_t) {},
               [](float, const Lanes::value_type&) {}) <= height;
  };
  double low = 1, high = static_cast<double>(scene.heap.reserved.count) + 1;
  if (!fits(high)) return widest_lane(scene, lanes, width);
  for (int i = 0; i < 24; ++i) {
    const double middle = std::sqrt(low * high);
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

std::string title_of(const Scene& scene, const Lanes::value_type& lane) {
  const auto& [name, of] = lane;
  return "pool " + pool_label(scene.tables(), name.first) + ",  stream " + stream_label(scene.tables(), name.second) +
         "   " + text_of(of.reserved) + " in " + std::to_string(of.segments.size()) +
         (of.segments.size() == 1 ? " segment,  " : " segments,  ") + text_of(of.held) + " in use" +
         (scene.heap.rounding ? ",  " + text_of(of.rounding) + " rounding" : "");
}

/// Handles the pointer on an allocation; a click selects it, with Ctrl its segment.
void point_at(Scene& scene, const HeldBlock& block) {
  scene.selection.hover(block.allocation);
  if (!ImGui::IsMouseClicked(ImGuiMouseButton_Left)) return;
  if (ImGui::GetIO().KeyCtrl)
    scene.selection.select(block.address);
  else
    scene.selection.select(scene.doc(), block.allocation);
  scene.selection.remember();
}

/// The free range around an address that no block covers; empty if one does.
struct FreeRange {
  Address begin, end;
  Bytes size() const { return begin < end ? end - begin : 0_B; }
};
FreeRange hole_around(const HeapAt& heap, const HeldSegment& segment, Address address) {
  const auto first = heap.blocks.begin() + segment.first_block, last = first + segment.blocks;
  const auto after = std::ranges::upper_bound(first, last, address, {}, &HeldBlock::address);
  const Address begin = after == first ? segment.address : std::prev(after)->end();
  if (begin > address) return {};
  return {begin, after == last ? segment.end() : after->address};
}

/// The requested part of a block ends at `requested`; the rest is rounding.
void draw_block(ImDrawList& list, const Area& area, float requested, Colour colour, Colour rounding) {
  if (area.left >= area.right) return;
  const float middle = std::clamp(std::round(requested), area.left, area.right);
  fill(list, {area.left, area.top, middle, area.bottom}, colour);
  if (middle < area.right) fill(list, {middle, area.top, area.right, area.bottom}, rounding);
}

/// `block`: the one under the pointer; null between blocks. `hole`: what is free there.
void tell(Scene& scene, const HeldSegment& segment, const HeldBlock* block, Bytes hole) {
  ImGui::BeginTooltip();
  if (block != nullptr) {
    const Document& document = scene.doc();
    std::string what = text_of(block->size);
    if (scene.has_categories())
      what += "   " + std::string(words_of(scene.classification->category(block->allocation)));
    if (block->pending) what += "   awaiting free";
    ImGui::TextUnformatted(what.c_str());
    ImGui::TextUnformatted(maker_label(scene, block->allocation).c_str());
    ImGui::TextDisabled(
        "at %s, since %s", address_text(block->address).c_str(),
        time_text(document.time(document.begin_of(block->allocation)) - document.first_time(), Nanoseconds{1000})
            .c_str());
    note_item(scene, "heap/told block");
    ImGui::Separator();
  } else if (hole > 0_B) {
    ImGui::TextUnformatted((text_of(hole) + " free; click: what keeps it").c_str());
    ImGui::Separator();
  }
  ImGui::TextUnformatted((text_of(segment.size) + " at " + address_text(segment.address)).c_str());
  ImGui::TextDisabled("%s in use in %s blocks, largest free block %s", text_of(segment.held).c_str(),
                      text_of(std::uint64_t{segment.blocks}).c_str(), text_of(segment.largest_gap_size).c_str());
  if (scene.heap.rounding) ImGui::TextDisabled("%s rounding", text_of(segment.rounding).c_str());
  ImGui::EndTooltip();
}

}  // namespace

/// One line only: in a small window, each further line costs a row of segments.
void HeapPane::draw_title(Scene& scene) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled(scene.heap.event == 0 ? "heap %s" : "heap at %s", event_text(scene.heap.event).c_str());
  choose_order(scene);
  draw_legend(scene);
  draw_hole(scene);
  ImGui::SameLine(0, 0);  // an entry without room leaves the line open
  ImGui::NewLine();
}

void HeapPane::choose_order(Scene& scene) {
  ImGui::SameLine(0, scene.px(10));
  const auto words = [](HeapOrder order) {
    return "by " + std::string(heap_order_words.at(static_cast<std::size_t>(order)));
  };
  ImGui::SetNextItemWidth(ImGui::CalcTextSize("by address").x + scene.px(36));
  if (ImGui::BeginCombo("##order", words(scene.heap_order).c_str())) {
    for (std::size_t i = 0; i < heap_order_words.size(); ++i) {
      const auto order = static_cast<HeapOrder>(i);
      if (ImGui::Selectable(words(order).c_str(), scene.heap_order == order)) scene.heap_order = order;
      note_item(scene, "heap/order/" + std::string(heap_order_words.at(i)));
    }
    ImGui::EndCombo();
  }
  note_item(scene, "heap/order");
}

/// The largest free block, and what keeps it from being larger.
void HeapPane::draw_hole(Scene& scene) {
  const HeapAt& heap = scene.heap;
  if (!heap.largest_gap) return;
  const float right = ImGui::GetWindowPos().x + ImGui::GetContentRegionMax().x;
  const auto room = [&] { return right - ImGui::GetItemRectMax().x; };
  std::string what = "largest free block " + text_of(heap.segments[*heap.largest_gap].largest_gap_size);
  if (!heap.pin_before && !heap.pin_after) what += ", a whole segment";
  if (room() < ImGui::CalcTextSize(what.c_str()).x + scene.px(18)) return;
  ImGui::SameLine(0, scene.px(18));
  ImGui::TextDisabled("%s", what.c_str());
  const char* word = " kept by";
  const auto pin = [&](const std::optional<std::uint32_t>& block, const char* name) {
    if (!block) return;
    const HeldBlock& b = heap.blocks[*block];
    const std::string who = text_of(b.size) + "  " + maker_label(scene, b.allocation);
    const float left = room() - ImGui::CalcTextSize(word).x - scene.px(26);
    if (left < scene.px(40)) return;
    const std::string shown = fitting(who, left);
    ImGui::SameLine(0, scene.px(4));
    ImGui::TextDisabled("%s", word);
    word = " and";
    ImGui::SameLine(0, scene.px(6));
    if (push_button(scene, name, {.says = shown})) {
      scene.selection.select(scene.doc(), b.allocation);
      scene.selection.remember();
    }
    if (ImGui::IsItemHovered()) scene.selection.hover(b.allocation);
  };
  pin(heap.pin_before, "heap/pin before");
  pin(heap.pin_after, "heap/pin after");
}

/// The colours that don't belong to an allocation, and their bytes.
void HeapPane::draw_legend(Scene& scene) {
  const HeapAt& heap = scene.heap;
  if (heap.segments.empty()) return;
  const Theme& theme = scene.theme;
  const Bytes held = heap.live + heap.pending + heap.rounding.value_or(0_B);
  if (heap.reserved >= held && legend_entry(scene, "free", theme.free, text_of(heap.reserved - held), theme.segment))
    note_item(scene, "heap/free");
  if (heap.rounding) {
    if (legend_entry(scene, "rounding", theme.rounding, text_of(*heap.rounding))) note_item(scene, "heap/rounding");
  } else if (!scene.rounding.running() && !scene.rounding.given_up()) {
    const char* why = is_torch_heap(scene.tables(), heap.heap)
                          ? scene.doc().event_count() > longest_in_memory ? "for traces this long" : "yet"
                          : "for this allocator";
    if (legend_entry(scene, "rounding", theme.rounding, std::string("not known ") + why))
      note_item(scene, "heap/rounding not known");
  }
  if (scene.series() != nullptr && scene.series()->has_pending)
    legend_entry(scene, "awaiting free, paler", mix(theme.hue(0), theme.segment, 0.55), text_of(heap.pending));
  if (heap.rounding) return;
  ImGui::SameLine(0, scene.px(18));
  draw_job(scene, "heap/rounding", "Computing rounding", scene.rounding);
}

void HeapPane::draw(Scene& scene, Verdicts& verdicts) {
  const HeapAt& heap = scene.heap;
  draw_title(scene);
  colour_of_ =
      with_others_pale(scene, colours_of(scene, scene.colour() == MapColour::verdict ? verdicts.ask(scene) : nullptr));
  const Area area = take_area("heap");
  note_place(scene, "heap", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  if (heap.segments.empty()) {
    explain(scene, area,
            scene.series() != nullptr && scene.series()->has_segments ? "No segments at this instant."
                                                                      : "This trace has no segments.",
            heap.blocks.empty() ? "Move the cursor: click the timeline, or press . and ,"
                                : "The allocation map shows its allocations.");
    return;
  }
  if (ImGui::IsItemHovered() && ImGui::GetIO().MouseWheel != 0) {
    if (ImGui::GetIO().KeyCtrl)
      zoom_ = std::clamp(zoom_ * std::pow(1.25, static_cast<double>(ImGui::GetIO().MouseWheel)), 1.0, 4096.0);
    else
      scroll_ -= scene.px(40) * ImGui::GetIO().MouseWheel;
  }
  arrange_segments(scene, area);
  scroll_ = std::clamp(scroll_, 0.0F, std::max(0.0F, layout_.height - area.height()));
  list.PushClipRect(area.min(), area.max(), true);
  const float left = area.left + scene.px(6), top = area.top + scene.px(4) - scroll_;
  for (const Title& lane : layout_.titles)
    if (top + lane.y < area.bottom && top + lane.y + ImGui::GetTextLineHeight() > area.top)
      text(list, {left, top + lane.y}, scene.theme.faint, lane.label);

  for (const Piece& piece : layout_.pieces) {
    const Area on_screen{left + piece.area.left, top + piece.area.top, left + piece.area.right,
                         top + piece.area.bottom};
    if (on_screen.bottom < area.top || on_screen.top > area.bottom) continue;
    draw_piece(scene, list, on_screen, on_screen.left - piece.before, piece);
  }
  list.PopClipRect();
  if (layout_.height <= area.height()) return;
  const float all = layout_.height, right = area.right - scene.px(2);
  list.AddRectFilled({right - scene.px(4), area.top + area.height() * scroll_ / all},
                     {right, area.top + area.height() * (scroll_ + area.height()) / all}, scene.theme.faint,
                     scene.px(2));
}

void HeapPane::arrange_segments(const Scene& scene, const Area& area) {
  const Layout::Key key{scene.heap.heap,
                        scene.heap.event,
                        scene.doc().event_count(),
                        area.width(),
                        area.height(),
                        scene.scale,
                        scene.heap.rounding.has_value(),
                        scene.heap_order,
                        zoom_};
  if (layout_.key == key) return;
  layout_ = Layout();
  layout_.key = key;
  const float width = std::max(area.width() - scene.px(12), scene.px(12));
  const Lanes lanes = lanes_of(scene);
  layout_.height = arrange(
      scene, lanes, width, fitting_scale(scene, lanes, width, area.height()) / zoom_,
      [&](const Area& at, std::uint32_t segment) { layout_.pieces.push_back({.area = at, .segment = segment}); },
      [&](float y, const Lanes::value_type& lane) {
        layout_.titles.push_back({y, fitting(title_of(scene, lane), width)});
      });
  // The pieces of a segment, in order, share its bytes in proportion to their width.
  for (std::size_t i = 0; i < layout_.pieces.size();) {
    std::size_t end = i;
    float total = 0;
    for (; end < layout_.pieces.size() && layout_.pieces[end].segment == layout_.pieces[i].segment; ++end) {
      layout_.pieces[end].before = total;
      total += layout_.pieces[end].area.width();
    }
    for (; i < end; ++i) layout_.pieces[i].total = total;
  }
}

void HeapPane::draw_piece(Scene& scene, ImDrawList& list, const Area& area, float segment_left, const Piece& piece) {
  const Selection& selection = scene.selection;
  const HeldSegment& segment = scene.heap.segments[piece.segment];
  const Document& document = scene.doc();
  // Blocks cover all but the edges of what is free.
  fill(list, area, scene.theme.free);
  fill(list, {area.left + 1, area.top + 1, area.right - 1, area.bottom - 1}, scene.theme.segment);
  const double pixels_per_byte = static_cast<double>(piece.total) / static_cast<double>(segment.size.count);
  const auto x_of = [&](Address address) {
    return segment_left + static_cast<float>(static_cast<double>((address - segment.address).count) * pixels_per_byte);
  };
  struct Outline {
    Area area;
    Colour colour;
    float width;
  };
  std::vector<Outline> outlines;  // drawn on top of all blocks
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool pointed = ImGui::IsItemHovered() && ImGui::IsMouseHoveringRect(area.min(), area.max());
  const auto first = scene.heap.blocks.begin() + segment.first_block, last = first + segment.blocks;
  auto block = std::partition_point(
      first, last, [&](const HeldBlock& b) { return std::max(x_of(b.end()), x_of(b.address) + 1) <= area.left; });
  float drawn_to = area.left - 1;
  const HeldBlock* pointed_block = nullptr;
  Address free_from = block == first ? segment.address : std::prev(block)->end();
  const bool has_gap = scene.heap.largest_gap == piece.segment;
  const auto say_free = [&](Address from, Address until, bool on_lines) {
    const float left = std::max(x_of(from), area.left) + scene.px(4), right = std::min(x_of(until), area.right);
    if (right - left < scene.px(70)) return;  // of thousands, all but a few
    const std::string what = text_of(until - from) + " free";
    const float width = ImGui::CalcTextSize(what.c_str()).x;
    if (width > right - left) return;
    const ImVec2 at{left, area.top + scene.px(1)};
    if (on_lines)
      fill(list, {at.x - scene.px(2), area.top + scene.px(2), at.x + width + scene.px(2), area.bottom - scene.px(2)},
           scene.theme.segment);
    text(list, at, mix(scene.theme.faint, scene.theme.text, 0.5), what);
    note_place(scene, "heap/hole label", {left, area.top, right, area.bottom});
  };
  const auto label_hole = [&](Address until) {
    const bool is_crossed_out = has_gap && free_from == segment.largest_gap;  // it is labelled above its lines
    if (until > free_from && !is_crossed_out) say_free(free_from, until, false);
  };
  for (; block != last; ++block) {
    const float left = x_of(block->address), right = std::max(x_of(block->end()), left + 1);
    if (left >= area.right) break;
    label_hole(block->address);
    free_from = std::max(free_from, block->end());
    const bool marked = selection.allocation == block->allocation || selection.highlights(document, block->allocation);
    if (pointed && mouse.x >= left && mouse.x < right) {
      point_at(scene, *block);
      pointed_block = &*block;
    }
    const auto number = static_cast<std::uint32_t>(block - scene.heap.blocks.begin());
    const bool pins = scene.heap.pin_before == number || scene.heap.pin_after == number;
    if (right <= drawn_to && !marked && !pins) continue;  // below the blocks
    const Colour colour = colour_of_(block->allocation);
    const float gap = right - left > 3 ? 1.0F : 0.0F;
    const Area visible{std::max(left, area.left), area.top, std::min(right - gap, area.right), area.bottom};
    draw_block(list, visible, std::max(x_of(block->address + block->size), left + 1),
               block->pending ? mix(colour, scene.theme.segment, 0.55) : colour, scene.theme.rounding);
    if (visible.width() > scene.px(70)) {
      text(list, {visible.left + scene.px(4), visible.top + scene.px(1)}, ink_on(colour),
           fitting(text_of(block->size) + "  " + stack_labels_.of_block(scene, block->allocation),
                   visible.width() - scene.px(8)));
      note_place(scene, "heap/label", visible);
    }
    const Area all{left, area.top, right, area.bottom};
    if (pins) outlines.push_back({all, scene.theme.accent, scene.px(2)});
    if (marked) outlines.push_back({all, scene.theme.selection, scene.px(1.5)});
    drawn_to = std::max(drawn_to, std::floor(right));
  }
  label_hole(block == last ? segment.end() : block->address);
  if (has_gap || !outlines.empty()) {
    // They may extend beyond this piece.
    list.PushClipRect(area.min(), area.max(), true);
    for (const Outline& o : outlines) outline(list, o.area, o.colour, o.width);
    if (has_gap) {
      const float left = x_of(segment.largest_gap), right = x_of(segment.largest_gap + segment.largest_gap_size);
      const Area gap{left, area.top, std::max(right, left + 3), area.bottom};
      note_place(scene, "heap/largest free",
                 {std::max(gap.left, area.left), gap.top, std::min(gap.right, area.right), gap.bottom});
      const Colour pale = with_alpha(scene.theme.accent, 0x80);
      outline(list, gap, scene.theme.accent, scene.px(2));
      list.AddLine({gap.left, gap.bottom}, {gap.right, gap.top}, pale, scene.px(1));
      list.AddLine({gap.left, gap.top}, {gap.right, gap.bottom}, pale, scene.px(1));
      say_free(segment.largest_gap, segment.largest_gap + segment.largest_gap_size, true);
    }
    list.PopClipRect();
  }
  draw_selected(scene, list, area, segment, x_of);
  if (!pointed) return;
  const double across = std::clamp(static_cast<double>(mouse.x - segment_left) / pixels_per_byte, 0.0,
                                   static_cast<double>(segment.size.count - 1));
  const Address here = segment.address + Bytes{static_cast<std::uint64_t>(across)};
  if (pointed_block == nullptr && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    scene.selection.select(here);
    scene.selection.remember();
  }
  tell(scene, segment, pointed_block, pointed_block == nullptr ? hole_around(scene.heap, segment, here).size() : 0_B);
}

/// Outlines the segment if it is selected, or the hole in it.
void HeapPane::draw_selected(Scene& scene, ImDrawList& list, const Area& area, const HeldSegment& segment,
                             const std::function<float(Address)>& x_of) {
  const std::optional<Address>& space = scene.selection.space;
  if (!space || *space < segment.address || *space >= segment.end()) return;
  outline(list, area, scene.theme.selection, scene.px(1.5));
  note_place(scene, "heap/selected", area);
  const FreeRange hole = hole_around(scene.heap, segment, *space);
  if (hole.size() == 0_B) return;
  list.PushClipRect(area.min(), area.max(), true);
  outline(list, {x_of(hole.begin), area.top, std::max(x_of(hole.end), x_of(hole.begin) + 3), area.bottom},
          scene.theme.selection, scene.px(2.5));
  list.PopClipRect();
}

}  // namespace memreel::viewer
