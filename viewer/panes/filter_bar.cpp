#include "viewer/panes/filter_bar.h"

#include <array>
#include <optional>
#include <string>

#include "analyzer/report/category_style.h"
#include "formats/model/quantity.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

constexpr std::array<const char*, 5> least_sizes{"", "64KiB", "1MiB", "20MiB", "256MiB"};

void choose_category(Scene& scene) {
  std::optional<Category>& chosen = scene.selection.category;
  ImGui::SetNextItemWidth(scene.px(140));
  const std::string shown = chosen ? std::string(words_of(*chosen)) : "all categories";
  if (ImGui::BeginCombo("##category", shown.c_str(), ImGuiComboFlags_HeightLarge)) {
    if (ImGui::Selectable("all categories", !chosen)) chosen.reset();
    for (const CategoryStyle& style : category_styles()) {
      const std::string name(words_of(style.category));
      const CategoryHolding& held = scene.live.at(static_cast<std::size_t>(style.category));
      if (ImGui::Selectable((name + "   " + text_of(held.bytes)).c_str(), chosen == style.category))
        chosen = style.category;
      note_item(scene, "category/" + std::string(name_of(style.category)));
    }
    ImGui::EndCombo();
  }
  note_item(scene, "category");
}

void choose_least_size(Scene& scene) {
  std::string& search = scene.selection.search;
  const Filter typed = typed_filter(search);
  const auto words = [](std::string_view size) {
    return size.empty() ? std::string("any size") : "\u2265 " + std::string(size);
  };
  const std::string most = typed.most < Filter::no_limit ? "\u2264 " + text_of(typed.most) : "";
  const std::string least = typed.least > 0_B ? "\u2265 " + text_of(typed.least) : "";
  const std::string shown = typed.limits_size() ? least + (least.empty() || most.empty() ? "" : " ") + most : words("");
  ImGui::SetNextItemWidth(scene.px(130));
  if (ImGui::BeginCombo("##size", shown.c_str())) {
    for (const char* const size : least_sizes) {
      if (ImGui::Selectable(words(size).c_str())) search = with_least(search, size);
      note_item(scene, std::string("size/") + size);
    }
    ImGui::EndCombo();
  }
  note_item(scene, "size");
}

}  // namespace

void draw_filter_bar(Scene& scene) {
  const auto has_room = [&](double width) { return ImGui::GetContentRegionAvail().x >= scene.px(width); };
  if (scene.has_categories() && has_room(140)) {
    choose_category(scene);
    ImGui::SameLine();
  }
  if (!has_room(130)) return;
  choose_least_size(scene);
  ImGui::SameLine();
}

}  // namespace memreel::viewer
