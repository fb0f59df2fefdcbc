#include "viewer/panes/flame_pane.h"

#include <algorithm>
#include <cmath>

#include "analyzer/report/own_frame.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"
#include "viewer/panes/list_panes.h"

namespace memreel::viewer {

void FlamePane::draw(Scene& scene, Verdicts& verdicts) {
  choose_weighing(scene, weighing_);
  const WeightQuery query = weight_query(scene, weighing_);
  const auto work = weight_work(scene, verdicts, query);
  if (work)
    flame_.request(
        query,
        [document = scene.document, weigh = *work](const Progress& progress) -> std::optional<std::vector<FlameNode>> {
          const auto weights = weigh(progress);
          if (!weights) return std::nullopt;
          return flame_graph(*document->tables, *weights);
        },
        false);
  if (!flame_.is_current()) scene.busy = true;
  shown_ = flame_.value();
  const bool is_ready = work && shown_ && flame_.key()->weighing == weighing_;

  const Area area = take_area("flame");
  note_place(scene, "flame", area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (!is_ready || shown_->front().bytes == 0) return explain_no_weights(scene, area, weighing_, is_ready);
  if (shown_->size() == 1) return explain(scene, area, "No stacks were recorded.");
  if (ImGui::IsItemHovered()) {
    scroll_ -= scene.px(40) * ImGui::GetIO().MouseWheel;
    if (key_pressed(ImGuiKey_Backspace)) {
      begin_ = 0;
      end_ = 1;
    }
  }
  const float row = ImGui::GetTextLineHeight() + scene.px(4);
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
    draw_node(scene, list, {std::max(box.left, area.left), box.top, std::min(box.right, area.right), box.bottom}, n);
  }
  list.PopClipRect();
}

void FlamePane::draw_node(Scene& scene, ImDrawList& list, const Area& area, std::uint32_t number) {
  const FlameNode& node = (*shown_)[number];
  const FrameText frame = frame_text(scene.tables(), node.frame);
  // The user's own code in colour, libraries in grey: what can be changed stands out.
  Colour colour = mix(scene.theme.line, scene.theme.panel, 0.2);
  Colour ink = scene.theme.text;
  if (number != 0 && !is_library_file(frame.file)) {
    colour = mix(scene.theme.category(0), scene.theme.category(2), (index(node.frame) * 37 % 64) / 64.0);
    ink = rgb(0x0B1016);
  }
  const bool hovered = ImGui::IsItemHovered() && ImGui::IsMouseHoveringRect(area.min(), area.max());
  const bool pointed = number != 0 && scene.selection.highlights(scene.doc(), node.stack);
  const bool marked = scene.selection.stack && number != 0 && node.stack == *scene.selection.stack;
  list.AddRectFilled(area.min(), {area.right - (area.width() > 3 ? 1.0F : 0.0F), area.bottom},
                     hovered || pointed ? mix(colour, scene.theme.text, 0.25) : colour, scene.px(2));
  if (marked) outline(list, area, scene.theme.selection, scene.px(1.5));
  const std::string name = number == 0 ? "all" : std::string(frame.function.empty() ? "(unknown)" : frame.function);
  if (area.width() > scene.px(24)) {
    const std::string label = name + "  " + text_of(Bytes{node.bytes});
    text(list, {area.left + scene.px(4), area.top + scene.px(1)}, ink, fitting(label, area.width() - scene.px(8)));
  }
  if (!hovered) return;
  if (number != 0) scene.selection.hover(node.stack);
  ImGui::BeginTooltip();
  ImGui::TextUnformatted((number == 0 ? name : text_of(frame)).c_str());
  ImGui::TextDisabled("%s in %s allocations, %s of all", text_of(Bytes{node.bytes}).c_str(),
                      text_of(node.count).c_str(), text_of_share(node.end - node.begin).c_str());
  ImGui::TextDisabled("double click: only this; Backspace: all");
  ImGui::EndTooltip();
  if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    begin_ = node.begin;
    end_ = std::max(node.end, node.begin + 1e-6);
  } else if (ImGui::IsMouseClicked(ImGuiMouseButton_Left) && number != 0) {
    scene.selection.select(node.stack);
  }
}

}  // namespace memreel::viewer
