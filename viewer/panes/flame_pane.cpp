// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/instant_panes.h"

#include <algorithm>

#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"
#include "viewer/panes/list_panes.h"

namespace memreel::viewer {

std::string FlamePane::name_of(const Tables& tables, const FlameNode& node) const {
  const FrameText frame = frame_text(tables, node.frame);
  const std::string function = frame_name(tables, node.frame);
  const std::string place =
      frame.file.empty() ? "" : std::string(base_name(frame.file)) + ":" + std::to_string(frame.line);
  if (!frames_.by_layer) return place.empty() ? function : function + "  " + place;
  if (frame.instance.empty()) return place.empty() ? function : place + "  " + function;
  if (frames_.bottom_up) return std::string(frame.instance);
  const std::string_view outer = frame_text(tables, (*shown_)[node.parent].frame).instance;
  const bool is_part = !outer.empty() && frame.instance.starts_with(outer) && frame.instance.size() > outer.size() &&
                       frame.instance[outer.size()] == '.';
  return std::string(is_part ? frame.instance.substr(outer.size() + 1) : frame.instance);
}

FlameShape FlamePane::shape_of(const Document& document, const std::shared_ptr<const Classification>& known,
                               const Frames& frames) {
  FlameShape shape{.by_module = frames.by_layer, .bottom_up = frames.bottom_up};
  if (known && known->knows_any)
    shape.category_of = [known](const StackWeight& weight) -> std::optional<Category> {
      if (weight.example == never) return std::nullopt;
      return known->category(weight.example);
    };
  if (frames.by_layer && known != nullptr)
    shape.are_nodes = layer_frames(*document.tables, known->categories->stacks());
  else if (!frames.wrappers)
    shape.are_nodes = frames_without_wrappers(*document.tables);
  return shape;
}

void FlamePane::choose_frames(Scene& scene) {
  const Frames before = frames_;
  // Beside the choice of weights, if there is room for all of it.
  const float left = ImGui::GetItemRectMax().x + scene.px(24);
  if (ImGui::GetWindowPos().x + ImGui::GetContentRegionMax().x - left > scene.px(390)) ImGui::SameLine(0, scene.px(24));
  if (scene.classification && scene.classification->knows_layers) {
    for (const bool by_layer : {false, true}) {
      if (radio_button(scene, by_layer ? "flame/by layer" : "flame/by stack", frames_.by_layer == by_layer))
        frames_.by_layer = by_layer;
      ImGui::SameLine();
    }
  } else {
    frames_.by_layer = false;
  }
  check_box(scene, "flame/bottom-up", frames_.bottom_up);
  if (!frames_.by_layer) {
    ImGui::SameLine();
    check_box(scene, "flame/wrappers", frames_.wrappers);
  }
  if (before == frames_) return;
  begin_ = 0;
  end_ = 1;
}

void FlamePane::zoom_to(const FlameNode& node) {
  begin_ = node.begin;
  end_ = std::max(node.end, node.begin + 1e-6);
}

/// The next bar of the cursor's row, or the previous one.
std::uint32_t FlamePane::beside(int by) const {
  const FlameNode& here = (*shown_)[cursor_];
  std::uint32_t nearest = cursor_;
  for (std::uint32_t n = 0; n < shown_->size(); ++n) {
    const FlameNode& node = (*shown_)[n];
    if (node.depth != here.depth || n == cursor_ || (by > 0 ? node.begin < here.end : node.end > here.begin)) continue;
    const FlameNode& best = (*shown_)[nearest];
    if (nearest == cursor_ || (by > 0 ? node.begin < best.begin : node.end > best.end)) nearest = n;
  }
  return nearest;
}

/// Itself if it has none.
std::uint32_t FlamePane::widest_child(std::uint32_t parent) const {
  std::uint32_t widest = parent;
  for (std::uint32_t n = 1; n < shown_->size(); ++n)
    if ((*shown_)[n].parent == parent && (widest == parent || (*shown_)[n].bytes > (*shown_)[widest].bytes)) widest = n;
  return widest;
}

void FlamePane::take_keys(Scene& scene, const Area& area, float row, std::span<const FocusKey> keys) {
  if (!scene.focus.has("flame")) return;
  cursor_ = std::min(cursor_, static_cast<std::uint32_t>(shown_->size() - 1));
  for (const FocusKey key : keys) {
    const FlameNode& node = (*shown_)[cursor_];
    switch (key) {
      case FocusKey::up:
        cursor_ = node.parent;
        break;
      case FocusKey::down:
        cursor_ = widest_child(cursor_);
        break;
      case FocusKey::left:
      case FocusKey::right:
        cursor_ = beside(key == FocusKey::left ? -1 : 1);
        break;
      case FocusKey::home:
        cursor_ = 0;
        zoom_to(shown_->front());
        break;
      case FocusKey::press:
        if (cursor_ != 0) scene.selection.select(node.stack);
        break;
      case FocusKey::open:
        zoom_to(node);
        break;
      default:
        break;
    }
  }
  const FlameNode& at = (*shown_)[cursor_];
  const float top = row * static_cast<float>(at.depth);
  if (!keys.empty()) {
    scroll_ = std::clamp(scroll_, top + row - area.height(), top);
    if (at.end <= begin_ || at.begin >= end_) zoom_to(shown_->front());
  }
  scene.focus.set_row(cursor_);
  if (cursor_ != 0 && !ImGui::IsItemHovered()) scene.selection.hover(at.stack);
}

void FlamePane::draw(Scene& scene, Verdicts& verdicts) {
  weighing_.draw(scene);
  const Weighing weighing = weighing_.of(scene.selection);
  choose_frames(scene);
  const Key key{weight_query(scene, weighing), frames_, scene.classified()};
  const auto work = weight_work(scene, verdicts, key.weights);
  if (work)
    flame_.request(
        key,
        [document = scene.document, weigh = *work, known = scene.classification,
         frames = frames_](const Progress& progress) -> std::optional<std::vector<FlameNode>> {
          const auto weights = weigh(progress);
          if (!weights) return std::nullopt;
          return flame_graph(*document->tables, *weights, shape_of(*document, known, frames));
        },
        false);
  if (!flame_.is_current()) scene.busy = true;
  shown_ = flame_.value();
  const bool is_ready = work && shown_ && flame_.key()->weights.weighing == weighing && flame_.key()->frames == frames_;

  const Area area = take_area("flame");
  note_place(scene, "flame", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (!is_ready || shown_->front().bytes == 0) return explain_no_weights(scene, area, weighing, is_ready);
  if (shown_->size() == 1)
    return explain(scene, area,
                   frames_.by_layer
                       ? "None of it was allocated in a layer or in the program's own code, according to the stacks."
                       : "No stacks were recorded.");
  if (ImGui::IsItemHovered()) {
    scroll_ -= scene.px(40) * ImGui::GetIO().MouseWheel;
    if (key_pressed(ImGuiKey_Backspace)) {
      begin_ = 0;
      end_ = 1;
    }
  }
  const float row = ImGui::GetTextLineHeight() + scene.px(4);
  const std::span<const FocusKey> keys = scene.focus.add_list("flame", area.min(), area.max());
  take_keys(scene, area, row, keys);
  const float height = row * static_cast<float>(shown_->back().depth + 1);
  scroll_ = std::clamp(scroll_, 0.0F, std::max(0.0F, height - area.height()));
  list.PushClipRect(area.min(), area.max(), true);
  for (std::uint32_t n = 0; n < shown_->size(); ++n) {
    const FlameNode& node = (*shown_)[n];
    const auto width = static_cast<double>(area.width());
    const Area box{area.left + static_cast<float>((node.begin - begin_) / (end_ - begin_) * width),
                   area.top - scroll_ + row * static_cast<float>(node.depth),
                   area.left + static_cast<float>((node.end - begin_) / (end_ - begin_) * width),
                   area.top - scroll_ + row * static_cast<float>(node.depth + 1) - 1};
    if (box.right - box.left < 0.5F || box.right < area.left || box.left > area.right || box.bottom < area.top ||
        box.top > area.bottom)
      continue;
    const Area visible{std::max(box.left, area.left), box.top, std::min(box.right, area.right), box.bottom};
    draw_node(scene, list, visible, n);
    constexpr std::uint32_t noted = 16;  // for tests
    if (n < noted) note_place(scene, "flame/" + std::to_string(n), visible);
  }
  draw_rest(scene, list, area);
  list.PopClipRect();
}

/// Weight that no frame accounts for: the right end of the row below the root.
void FlamePane::draw_rest(Scene& scene, ImDrawList& list, const Area& area) {
  double covered = 0;
  for (const FlameNode& node : *shown_)
    if (node.depth == 1) covered = std::max(covered, node.end);
  const float row = ImGui::GetTextLineHeight() + scene.px(4);
  const auto x_of = [&](double share) {
    return area.left + static_cast<float>((share - begin_) / (end_ - begin_)) * area.width();
  };
  const Area rest{std::max(x_of(covered), area.left), area.top - scroll_ + row, std::min(x_of(1), area.right),
                  area.top - scroll_ + 2 * row - 1};
  const Bytes bytes{static_cast<std::uint64_t>(static_cast<double>(shown_->front().bytes) * (1 - covered))};
  const std::string what =
      std::string(frames_.by_layer ? "outside layers and own code" : "no stack") + "  " + text_of(bytes);
  if (rest.width() < 1) return;
  list.AddRectFilled(rest.min(), rest.max(), mix(scene.theme.line, scene.theme.panel, 0.6), scene.px(2));
  note_place(scene, "flame/rest", rest);
  if (rest.width() < scene.px(40)) return;
  text(list, {rest.left + scene.px(4), rest.top + scene.px(1)}, scene.theme.text,
       fitting(what, rest.width() - scene.px(8)));
}

void FlamePane::draw_node(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number) {
  const FlameNode& node = (*shown_)[number];
  const FrameText frame = frame_text(scene.tables(), node.frame);
  // By category, what is mixed or not known is grey; else the user's own code is in colour, because it can be changed.
  Colour colour = mix(scene.theme.line, scene.theme.panel, 0.2);
  Colour ink = scene.theme.text;
  if (scene.has_categories() && scene.colour() == MapColour::category) {
    if (number != 0 && node.category && *node.category != Category::unknown) {
      colour = scene.theme.category(*node.category);
      ink = ink_on(colour);
    }
  } else if (number != 0 && (frames_.by_layer || frame.owner == CodeOwner::user)) {
    colour = mix(scene.theme.hue(0), scene.theme.hue(2), (index(node.frame) * 37 % 64) / 64.0);
    ink = rgb(0x0B1016);
  }
  const bool hovered = ImGui::IsItemHovered() && ImGui::IsMouseHoveringRect(area.min(), area.max());
  const bool pointed = number != 0 && scene.selection.highlights(scene.doc(), node.stack);
  const bool is_cursor = number == cursor_ && scene.focus.has("flame");
  const bool marked = scene.selection.stack && number != 0 && node.stack == *scene.selection.stack;
  list.AddRectFilled(area.min(), {area.right - (area.width() > 3 ? 1.0F : 0.0F), area.bottom},
                     hovered || pointed ? mix(colour, scene.theme.text, 0.25) : colour, scene.px(2));
  if (marked) outline(list, area, scene.theme.selection, scene.px(1.5));
  if (is_cursor) {
    outline(list, area, scene.theme.selection, scene.px(2));
    note_place(scene, "flame/row", area);
  }
  const bool has_room = area.width() > scene.px(24);
  if (!has_room && !hovered) return;
  const std::string name = number == 0 ? "all" : name_of(scene.tables(), node);
  if (has_room) {
    const std::string label = name + "  " + text_of(Bytes{node.bytes});
    text(list, {area.left + scene.px(4), area.top + scene.px(1)}, ink, fitting(label, area.width() - scene.px(8)));
  }
  if (!hovered) return;
  if (number != 0) scene.selection.hover(node.stack);
  ImGui::BeginTooltip();
  ImGui::TextUnformatted((number == 0 || text_of(frame).empty() ? name : text_of(frame)).c_str());
  if (frames_.by_layer && !frame.instance.empty()) ImGui::TextUnformatted(std::string(frame.instance).c_str());
  if (node.category) ImGui::TextDisabled("mostly %s", std::string(words_of(*node.category)).c_str());
  ImGui::TextDisabled("%s in %s allocations, %s of all", text_of(Bytes{node.bytes}).c_str(),
                      text_of(node.count).c_str(), text_of_share(node.end - node.begin).c_str());
  ImGui::TextDisabled("double click: only this; Backspace: all");
  ImGui::EndTooltip();
  if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    zoom_to(node);
  } else if (ImGui::IsMouseClicked(ImGuiMouseButton_Left) && number != 0) {
    scene.selection.select(node.stack);
  }
}

}  // namespace memreel::viewer
