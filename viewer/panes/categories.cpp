#include "viewer/panes/categories.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "analyzer/report/category_style.h"
#include "formats/model/quantity.h"

namespace memreel::viewer {

void draw_categories(Scene& scene, const LiveByCategory& live, const std::string& place) {
  const auto held = [&](Category c) -> const CategoryHolding& { return live.at(static_cast<std::size_t>(c)); };
  std::uint64_t total = 0;
  std::vector<Category> order;
  for (const CategoryStyle& style : category_styles()) {
    total += held(style.category).bytes.count;
    if (held(style.category).count != 0) order.push_back(style.category);
  }
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](Category c) { return held(c).bytes; });
  const float from = ImGui::GetCursorPosX(), size = scene.px(9), height = ImGui::GetTextLineHeight();
  const auto cell = [&](double right, const std::string& what) {
    ImGui::SameLine(from + scene.px(right) - ImGui::CalcTextSize(what.c_str()).x);
    ImGui::TextUnformatted(what.c_str());
  };
  for (const Category c : order) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const Area row{at.x, at.y, at.x + scene.px(330), at.y + height};
    const bool pointed = !place.empty() && ImGui::IsWindowHovered() && row.contains(ImGui::GetIO().MousePos);
    if (pointed || (!place.empty() && scene.selection.category == c))
      fill(*ImGui::GetWindowDrawList(), row, with_alpha(scene.theme.accent, 0x30));
    const float drop = (height - size) / 2;
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + drop}, {at.x + size, at.y + drop + size},
                                              scene.theme.category(c), scene.px(2));
    ImGui::Dummy({size, height});
    ImGui::SameLine(from + scene.px(16));
    ImGui::TextUnformatted(std::string(words_of(c)).c_str());
    const double share =
        static_cast<double>(held(c).bytes.count) / static_cast<double>(std::max<std::uint64_t>(total, 1));
    cell(205, text_of(held(c).bytes));
    cell(260, text_of_share(share));
    cell(320, text_of(held(c).count));
    if (place.empty()) continue;
    note_place(scene, place + "/" + std::string(name_of(c)), row);
    if (!pointed) continue;
    scene.selection.hover(c);
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) scene.selection.toggle(c);
  }
}

}  // namespace memreel::viewer
