// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/widgets.h"

#include <algorithm>
#include <array>

#include "analyzer/describe/live_groups.h"
#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {

std::string maker_label(const Scene& scene, std::uint32_t allocation) {
  const StackId stack = scene.doc().stack_of(allocation);
  if (stack == StackId::none && scene.has_categories()) return no_stack_label(scene.classification->phase(allocation));
  return stack_label(scene.tables(), stack);
}

const std::string& StackLabels::of(const Scene& scene, StackId stack) {
  constexpr std::size_t most = 4096;
  if (tables_ != scene.document->tables || labels_.size() >= most) {
    labels_.clear();
    tables_ = scene.document->tables;
  }
  const auto [label, is_new] = labels_.try_emplace(stack);
  if (is_new) label->second = stack_label(*tables_, stack);
  return label->second;
}

const std::string& StackLabels::of_block(const Scene& scene, std::uint32_t allocation) {
  if (!scene.has_categories() || scene.colour() != MapColour::category)
    return of(scene, scene.doc().stack_of(allocation));
  words_ = words_of(scene.classification->category(allocation));
  return words_;
}

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
  const auto width_of = [](const std::string& what) { return ImGui::CalcTextSize(what.c_str()).x; };
  const auto cell = [&](float right, const std::string& what) {
    ImGui::SameLine(from + right - width_of(what));
    ImGui::TextUnformatted(what.c_str());
  };
  // In a narrow pane the count is left out first, then the share.
  const float all = ImGui::GetContentRegionAvail().x, bytes_width = width_of("1023.99 MiB");
  float names = 0;
  for (const Category c : order) names = std::max(names, width_of(std::string(words_of(c))));
  const float bytes_at =
      std::min(std::max(scene.px(205), scene.px(24) + names + bytes_width), std::max(all, bytes_width));
  const float share_at = bytes_at + scene.px(55), count_at = share_at + scene.px(60);
  for (const Category c : order) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const Area row{at.x, at.y, at.x + std::min(scene.px(330), all), at.y + height};
    const bool pointed = !place.empty() && ImGui::IsWindowHovered() && row.contains(ImGui::GetIO().MousePos);
    if (pointed || (!place.empty() && scene.selection.category == c))
      fill(*ImGui::GetWindowDrawList(), row, with_alpha(scene.theme.accent, 0x30));
    const float drop = (height - size) / 2;
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + drop}, {at.x + size, at.y + drop + size},
                                              scene.theme.category(c), scene.px(2));
    ImGui::Dummy({size, height});
    ImGui::SameLine(from + scene.px(16));
    ImGui::TextUnformatted(fitting(words_of(c), bytes_at - bytes_width - scene.px(20)).c_str());
    const double share =
        static_cast<double>(held(c).bytes.count) / static_cast<double>(std::max<std::uint64_t>(total, 1));
    cell(bytes_at, text_of(held(c).bytes));
    if (share_at <= all) cell(share_at, text_of_share(share));
    if (count_at <= all) cell(count_at, text_of(held(c).count));
    if (place.empty()) continue;
    const std::string name = place + "/" + std::string(name_of(c));
    note_place(scene, name, row);
    scene.focus.add(name, FocusKind::drawn, row.min(), row.max());
    if (pointed || scene.focus.has(name)) scene.selection.hover(c);
    if ((pointed && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) || scene.focus.takes(name)) scene.selection.toggle(c);
  }
}

namespace {

constexpr std::array<const char*, 5> least_sizes{"", "64KiB", "1MiB", "20MiB", "256MiB"};

void choose_category(Scene& scene) {
  std::optional<Category>& chosen = scene.selection.category;
  ImGui::SetNextItemWidth(scene.px(140));
  const std::string shown = chosen ? std::string(words_of(*chosen)) : "all categories";
  if (ImGui::BeginCombo("##category", shown.c_str(), ImGuiComboFlags_HeightLarge)) {
    if (menu_entry(scene, "all categories", !chosen, "category/all")) chosen.reset();
    for (const CategoryStyle& style : category_styles()) {
      const std::string name(words_of(style.category));
      const CategoryHolding& held = scene.live.at(static_cast<std::size_t>(style.category));
      if (menu_entry(scene, name + "   " + text_of(held.bytes), chosen == style.category,
                     "category/" + std::string(name_of(style.category))))
        chosen = style.category;
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
      if (menu_entry(scene, words(size), false, std::string("size/") + size)) search = with_least(search, size);
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
