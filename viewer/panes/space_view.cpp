// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/space_view.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {
namespace {

std::string instant(const Document& document, std::uint32_t event) {
  const Nanoseconds since = document.time(event) - document.first_time();
  return time_text(since, std::max(since / 1000, Nanoseconds{1}));
}

std::string until_text(const Document& document, std::uint32_t event) {
  return event == never ? "to the end" : instant(document, event);
}

double order_of(std::uint32_t until) {
  return until == never ? std::numeric_limits<double>::max() : static_cast<double>(until);
}

void wrapped(const Scene& scene, const std::string& what) {
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::TextWrapped("%s", what.c_str());
  ImGui::PopStyleColor();
}

std::string counted(std::uint64_t count, const char* what) {
  return text_of(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

SpaceView::SpaceView()
    : places_("pinned by",
              {{"bytes", 78, true, 0}, {"last until", 78, true, 1}, {"blocks", 56, true, 2}, {"who", 0, false}}),
      blocks_("segment blocks",
              {{"size", 78, true, 0}, {"until", 78, true, 1}, {"category", 96, false}, {"who", 0, false}}) {
  places_.set_sort(1, true);
  blocks_.set_sort(1, true);
}

void SpaceView::draw(Scene& scene, Address address) {
  const Key key{scene.document, scene.heap.heap, scene.heap.event, scene.heap.rounding.has_value(), address};
  if (!(key == key_)) {
    key_ = key;
    auto found = space_at(scene.doc(), scene.heap, address);
    space_ = found ? std::make_shared<const Space>(*std::move(found)) : nullptr;
  }
  if (space_ == nullptr) {
    ImGui::TextDisabled("nothing is reserved at %s now", address_text(address).c_str());
    return;
  }
  if (space_->hole) draw_hole(scene);
  draw_segment(scene);
  if (space_->blocks.empty()) return;
  draw_places(scene);
  draw_blocks(scene);
}

void SpaceView::draw_hole(const Scene& scene) const {
  const Hole& hole = *space_->hole;
  ImGui::TextUnformatted((text_of(hole.size) + " free").c_str());
  ImGui::SameLine(0, scene.px(14));
  ImGui::TextDisabled("at %s", address_text(hole.address).c_str());
  const PoolStreamKey& whose = space_->pool_stream;
  std::string serves;
  if (!hole.largest_request)
    serves = "Could serve requests of up to " + text_of(hole.size) + ", if this allocator splits such blocks";
  else if (*hole.largest_request == 0_B)
    serves = "Serves no request: those of the large pools are above " + text_of(TorchSettings::max_small);
  else
    serves = "Serves requests of up to " + text_of(*hole.largest_request);
  serves += ", of pool " + pool_label(scene.tables(), whose.pool) + ", stream " +
            stream_label(scene.tables(), whose.stream) + " only.";
  wrapped(scene, serves);
  ImGui::Spacing();
}

void SpaceView::draw_segment(Scene& scene) const {
  const HeldSegment& segment = space_->segment;
  const Document& document = scene.doc();
  ImGui::TextUnformatted((text_of(segment.size) + (segment.mapped ? " mapped" : " segment")).c_str());
  ImGui::SameLine(0, scene.px(14));
  ImGui::TextDisabled("at %s, since %s", address_text(segment.address).c_str(),
                      instant(document, segment.begin).c_str());
  note_item(scene, "inspector/space");
  const Bytes used = segment.held + segment.rounding, free = segment.size - std::min(used, segment.size);
  std::string what = text_of(used) + " in use, " + text_of(free) + " free";
  if (space_->largest_hole.size > 0_B && !space_->hole)
    what += ", at most " + text_of(space_->largest_hole.size) + " in one piece";
  wrapped(scene, what);
  if (space_->blocks.empty()) {
    ImGui::TextWrapped("Nothing is in it: empty_cache() would release it.");
    return;
  }
  std::string frees =
      space_->blocks.size() == 1
          ? "It can be released once its one block is freed"
          : "It can be released once all " + text_of(std::uint64_t{space_->blocks.size()}) + " blocks are freed";
  frees += space_->empty_from == never ? ", which does not happen in this trace."
                                       : ": at " + instant(document, space_->empty_from) + ".";
  if (segment.mapped && free > space_->unreleasable)
    frees += " " + text_of(free - space_->unreleasable) + " of it can be unmapped before.";
  ImGui::TextWrapped("%s", frees.c_str());
}

void SpaceView::draw_places(Scene& scene) {
  const std::vector<SpacePlace>& places = space_->places;
  if (places.empty()) return;
  Selection& selection = scene.selection;
  constexpr std::size_t most = 5;  // on screen; the rest by scrolling
  const float row = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  ImGui::Spacing();
  ImGui::TextDisabled("pinned by %s", counted(places.size(), "place").c_str());
  ImGui::BeginChild("places", {0, row * static_cast<float>(std::min(places.size(), most) + 1) + scene.px(4)}, false,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  Rows rows;
  rows.count = places.size();
  rows.cell = [&](std::uint64_t i, int column) -> std::string {
    const SpacePlace& place = places[i];
    switch (column) {
      case 0:
        return text_of(place.site.bytes);
      case 1:
        return until_text(scene.doc(), place.until);
      case 2:
        return text_of(place.site.blocks);
      default:
        return maker_label(scene, place.largest);
    }
  };
  rows.key = [&](std::uint64_t i, int sort) {
    const SpacePlace& place = places[i];
    return sort == 0   ? static_cast<double>(place.site.bytes.count)
           : sort == 1 ? order_of(place.until)
                       : static_cast<double>(place.site.blocks);
  };
  rows.of = space_;
  const auto stack = [&](std::uint64_t i) { return scene.doc().stack_of(places[i].largest); };
  rows.swatch = [&](std::uint64_t i) -> std::optional<Colour> {
    if (!scene.has_categories()) return scene.theme.shade(index(scene.doc().site_of(places[i].largest)));
    return scene.theme.category(scene.classification->category(places[i].largest));
  };
  rows.highlighted = [&](std::uint64_t i) { return selection.highlights(scene.doc(), stack(i)); };
  rows.on_hover = [&](std::uint64_t i) { selection.hover(stack(i)); };
  rows.on_click = [&](std::uint64_t i) {
    selection.select(scene.doc(), places[i].largest);
    selection.remember();
  };
  places_.draw(scene, rows);
  ImGui::EndChild();
}

void SpaceView::draw_blocks(Scene& scene) {
  const std::vector<SpaceBlock>& blocks = space_->blocks;
  Selection& selection = scene.selection;
  ImGui::Spacing();
  ImGui::TextDisabled("%s, the last to go first", counted(blocks.size(), "block").c_str());
  blocks_.hide(2, !scene.has_categories());
  Rows rows;
  rows.count = blocks.size();
  const auto id = [&](std::uint64_t i) { return blocks[i].block.allocation; };
  rows.cell = [&](std::uint64_t i, int column) -> std::string {
    switch (column) {
      case 0:
        return text_of(blocks[i].block.size);
      case 1:
        return until_text(scene.doc(), blocks[i].until);
      case 2:
        return scene.has_categories() ? std::string(words_of(scene.classification->category(id(i)))) : "";
      default:
        return maker_label(scene, id(i));
    }
  };
  rows.key = [&](std::uint64_t i, int sort) {
    return sort == 0 ? static_cast<double>(blocks[i].block.size.count) : order_of(blocks[i].until);
  };
  rows.of = space_;
  rows.swatch = [&](std::uint64_t i) -> std::optional<Colour> {
    if (!scene.has_categories()) return scene.theme.shade(index(scene.doc().site_of(id(i))));
    return scene.theme.category(scene.classification->category(id(i)));
  };
  rows.highlighted = [&](std::uint64_t i) { return selection.hovered_allocation == id(i); };
  rows.on_hover = [&](std::uint64_t i) { selection.hover(id(i)); };
  rows.on_click = [&](std::uint64_t i) {
    selection.select(scene.doc(), id(i));
    selection.remember();
  };
  blocks_.draw(scene, rows);
}

}  // namespace memreel::viewer
