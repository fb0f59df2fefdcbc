// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/layout.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/writer/trace_writer.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

constexpr std::string_view lists = "lists";  // the pane with the tabs

// What panes need at least, in units of length.
constexpr double least_timeline = 112, least_map = 78, least_heap = 76, least_lists = 100, between = 5;
constexpr double least_inspector = 230, least_beside_it = 360;

/// Within a range that may be empty: then its lower end.
float within(float value, float least, float most) { return std::max(std::min(value, most), least); }

/// A draggable line between two panes; it sets `share` of `total`.
void splitter(Scene& scene, const char* name, bool vertical, float total, float sign, float& share) {
  const float thickness = scene.px(5);
  const ImVec2 at = ImGui::GetCursorScreenPos(), avail = ImGui::GetContentRegionAvail();
  const ImVec2 size =
      vertical ? ImVec2{thickness, std::max(avail.y, 1.0F)} : ImVec2{std::max(avail.x, 1.0F), thickness};
  fill(*ImGui::GetWindowDrawList(), {at.x, at.y, at.x + size.x, at.y + size.y}, scene.theme.ground);
  ImGui::InvisibleButton(name, size);
  if (ImGui::IsItemHovered() || ImGui::IsItemActive())
    ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
  if (!ImGui::IsItemActive() || total <= 0) return;
  const ImVec2 by = ImGui::GetIO().MouseDelta;
  share = std::clamp(share + sign * (vertical ? by.x : by.y) / total, least_share, most_share);
}

std::string title_of(const Tab& tab) {
  std::string title = tab.name == "oom" ? "OOM" : std::string(tab.name);
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  if (tab.alarms != 0) title += " " + text_of(tab.alarms);
  return title;
}

}  // namespace

bool is_tab(std::string_view pane) { return std::ranges::find(tab_names, pane) != tab_names.end(); }

void Layout::maximise(std::string_view pane) {
  maximised_ = pane;
  if (is_tab(pane)) tab_ = pane;
}

void Layout::show_tab(std::string_view name) {
  tab_ = name;
  opened_.clear();
  if (!maximised_.empty()) maximised_ = tab_;
}

void Layout::draw_pane(Scene& scene, std::string_view name, ImVec2 size, const std::function<void()>& contents) {
  const ImVec2 padding{scene.px(10), scene.px(7)};
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  // With very large text the verdict may not fit; all other panes scroll by themselves.
  const ImGuiWindowFlags still =
      name == "verdict" ? 0 : ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;
  ImGui::BeginChild((std::string(name) + " pane").c_str(), size, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | still);
  ImGui::PopStyleVar();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(8), scene.px(4)});
  contents();
  ImGui::PopStyleVar();
  // A double click on a pane's title line, where there is nothing to click.
  const ImVec2 at = ImGui::GetWindowPos();
  const Area title{at.x, at.y, at.x + ImGui::GetWindowWidth(), at.y + padding.y + ImGui::GetFrameHeight()};
  note_place(scene, "title/" + std::string(name), title);
  if (name != lists && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) && !ImGui::IsAnyItemHovered() &&
      title.contains(ImGui::GetIO().MousePos) && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
    wanted_maximised_ = maximised_.empty() ? std::string(name) : std::string();
  ImGui::EndChild();
}

void Layout::open(std::string_view name) {
  if (is_tab(name))
    show_tab(name);
  else
    opened_ = name;
}

bool Layout::has_room(std::string_view pane) const { return std::ranges::find(moved_, pane) == moved_.end(); }

void Layout::make_room(const Scene& scene, ImVec2 all) {
  moved_.clear();
  double height = least_timeline + least_map + least_heap + least_lists + 3 * between;
  const bool narrow = all.x < scene.px(least_inspector + least_beside_it);
  const bool low = all.y < scene.px(height);
  height -= least_heap + between;
  // Without the map, the inspector would leave the timeline an axis of its own.
  const bool lower = all.y < scene.px(height);
  if (lower) moved_.emplace_back("map");
  if (low) moved_.emplace_back("heap");
  if (lower || narrow) moved_.emplace_back("inspector");
  if (!opened_.empty() && has_room(opened_)) opened_.clear();
}

void Layout::draw(Scene& scene, Settings& settings, const PaneContents& contents) {
  if (wanted_maximised_) maximise(*std::exchange(wanted_maximised_, std::nullopt));
  if (!maximised_.empty()) {
    moved_.clear();
    opened_.clear();
    const bool is_list = is_tab(maximised_) && maximised_ != "ranks";  // those are more than one of the lists
    return draw_pane(scene, is_list ? lists : std::string_view(maximised_), {0, 0},
                     [&] { is_list ? draw_lists(scene, contents) : contents.draw(maximised_); });
  }
  if (settings.verdict) {
    draw_pane(scene, "verdict", {0, contents.verdict_height}, contents.draw_verdict_strip);
    const ImVec2 below = ImGui::GetCursorScreenPos();
    fill(*ImGui::GetWindowDrawList(), {0, below.y, ImGui::GetIO().DisplaySize.x, below.y + scene.px(1)},
         scene.theme.ground);
    ImGui::Dummy({0, scene.px(1)});
  }
  make_room(scene, ImGui::GetContentRegionAvail());
  draw_panes(scene, settings, contents);
}

void Layout::draw_panes(Scene& scene, Settings& settings, const PaneContents& contents) {
  const auto pane = [&](std::string_view name, ImVec2 size) {
    draw_pane(scene, name, size, [&] { name == lists ? draw_lists(scene, contents) : contents.draw(name); });
  };
  const bool has_map = has_room("map"), has_heap = has_room("heap"), has_inspector = has_room("inspector");
  const ImVec2 all = ImGui::GetContentRegionAvail();
  const float gap = scene.px(between);
  const float least_upper =
      scene.px(least_timeline + (has_map ? least_map + between : 0) + (has_heap ? least_heap + between : 0));
  // Where two panes share the height, they do so as they share it with the others.
  const float share =
      has_map ? settings.bottom_share : settings.bottom_share / (settings.bottom_share + settings.timeline_share);
  const float bottom = std::floor(within(all.y * share, scene.px(least_lists), all.y - gap - least_upper));
  const float above = all.y - bottom - gap;
  const float top = std::floor(within(all.y * settings.timeline_share, scene.px(least_timeline),
                                      above - (least_upper - scene.px(least_timeline))));
  const float right = !has_inspector ? -gap
                                     : std::floor(within(all.x * settings.inspector_share, scene.px(least_inspector),
                                                         all.x - gap - scene.px(least_beside_it)));
  // Panes with a time axis share one column, and so one axis.
  ImGui::BeginChild("above", {0, above});
  ImGui::BeginChild("left", {all.x - right - gap, 0});
  pane("timeline", {0, has_map ? top : 0});
  if (has_map) {
    splitter(scene, "below timeline", false, all.y, 1, settings.timeline_share);
    const float middle = above - top - gap;
    pane("map", {0, !has_heap ? 0
                              : std::floor(within((middle - gap) * settings.map_share, scene.px(least_map),
                                                  middle - gap - scene.px(least_heap)))});
    if (has_heap) {
      splitter(scene, "below map", false, middle, 1, settings.map_share);
      pane("heap", {0, 0});
    }
  }
  ImGui::EndChild();
  if (has_inspector) {
    ImGui::SameLine(0, 0);
    splitter(scene, "beside inspector", true, all.x, -1, settings.inspector_share);
    ImGui::SameLine(0, 0);
    pane("inspector", {0, 0});
  }
  ImGui::EndChild();
  splitter(scene, "above lists", false, all.y, -1, settings.bottom_share);
  pane(lists, {0, 0});
}

std::vector<std::string_view> Layout::folded_tabs(std::span<const Tab> tabs, float width, float gap) const {
  const auto width_of = [&](const Tab& tab) { return ImGui::CalcTextSize(title_of(tab).c_str()).x + gap; };
  float all = 0;
  for (const Tab& tab : tabs) all += width_of(tab);
  if (all <= width) return {};
  // The open one always has its place, then the first ones.
  float taken = 0;
  for (const Tab& tab : tabs)
    if (is_open(tab.name)) taken += width_of(tab);
  std::vector<std::string_view> folded;
  for (const Tab& tab : tabs) {
    if (is_open(tab.name)) continue;
    taken += width_of(tab);
    if (taken > width) folded.push_back(tab.name);
  }
  return folded;
}

void Layout::draw_folded(Scene& scene, std::span<const Tab> tabs, std::span<const std::string_view> folded,
                         const std::string& more) {
  const bool alarming = std::ranges::any_of(
      tabs, [&](const Tab& tab) { return tab.alarms != 0 && std::ranges::find(folded, tab.name) != folded.end(); });
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 extent{ImGui::CalcTextSize(more.c_str()).x, ImGui::GetTextLineHeight() + scene.px(6)};
  if (ImGui::InvisibleButton("more", extent)) ImGui::OpenPopup("more tabs");
  note_item(scene, "tab/more");
  const Theme& theme = scene.theme;
  text(*ImGui::GetWindowDrawList(), at,
       ImGui::IsItemHovered() ? theme.text
       : alarming             ? theme.alarm_ink
                              : theme.faint,
       more);
  if (ImGui::BeginPopup("more tabs")) {
    for (const Tab& tab : tabs) {
      if (std::ranges::find(folded, tab.name) == folded.end()) continue;
      if (ImGui::MenuItem(title_of(tab).c_str())) open(tab.name);
      note_item(scene, "tab/" + std::string(tab.name));
    }
    ImGui::EndPopup();
  }
  ImGui::SameLine(0, scene.px(20));
}

void Layout::draw_lists(Scene& scene, const PaneContents& contents) {
  const ImVec2 from = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "bottom", {from.x, from.y, from.x + size.x, from.y + size.y});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float gap = scene.px(20);
  const auto width_of = [](const std::string& title) { return ImGui::CalcTextSize(title.c_str()).x; };
  const std::string more = "more \u25BE";
  std::vector<Tab> tabs;
  for (const std::string_view name : moved_) tabs.push_back({name});
  tabs.insert(tabs.end(), contents.tabs.begin(), contents.tabs.end());
  std::vector<std::string_view> folded = folded_tabs(tabs, size.x - width_of(more) - gap, gap);
  for (const Tab& tab : tabs) {
    if (std::ranges::find(folded, tab.name) != folded.end()) continue;
    const std::string title = title_of(tab), name(tab.name);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 extent{ImGui::CalcTextSize(title.c_str()).x, ImGui::GetTextLineHeight() + scene.px(6)};
    if (ImGui::InvisibleButton(name.c_str(), extent)) open(name);
    note_item(scene, "tab/" + name);
    if ((ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) ||
        scene.focus.takes("tab/" + name, FocusKey::open))
      wanted_maximised_ = maximised_.empty() ? name : std::string();
    const Area area{at.x, at.y, at.x + extent.x, at.y + extent.y};
    const bool active = is_open(name), alarming = tab.alarms != 0;
    const Theme& theme = scene.theme;
    text(list, at, active || ImGui::IsItemHovered() ? theme.text : alarming ? theme.alarm_ink : theme.faint, title);
    if (active)
      fill(list, {at.x, area.bottom - scene.px(2), area.right, area.bottom}, alarming ? theme.alarm : theme.accent);
    ImGui::SameLine(0, gap);
  }
  if (!folded.empty()) draw_folded(scene, tabs, folded, more);
  scene.focus.new_part();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - scene.px(3));  // a line of text
  const std::string shown = tab();                             // a menu may open another
  if (opened_.empty()) contents.draw_beside_tabs(shown);
  ImGui::NewLine();
  scene.focus.new_part();
  contents.draw(shown);
}

namespace {

using Json = nlohmann::json;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment
  return value == nullptr ? std::string() : value;
}

void read_share(const Json& json, const char* name, float& share) {
  const auto found = json.find(name);
  if (found != json.end() && found->is_number()) share = std::clamp(found->get<float>(), 0.1F, 0.9F);
}

}  // namespace

std::filesystem::path settings_path() {
  if (const std::string config = environment("XDG_CONFIG_HOME"); !config.empty())
    return std::filesystem::path(config) / "memreel" / "view.json";
  if (const std::string home = environment("HOME"); !home.empty())
    return std::filesystem::path(home) / ".config" / "memreel" / "view.json";
  return {};
}

Settings load_settings(const std::filesystem::path& path) {
  Settings settings;
  const Result<std::string> text = read_whole_file(path);
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  if (!json.is_object()) return settings;
  const auto flag = [&](const char* name, bool& value) {
    if (const auto found = json.find(name); found != json.end() && found->is_boolean()) value = found->get<bool>();
  };
  flag("dark", settings.dark);
  flag("tour_done", settings.tour_done);
  flag("verdict", settings.verdict);
  if (const auto size = json.find("text_size"); size != json.end() && size->is_number())
    settings.text_size = std::clamp(size->get<float>(), least_text_size, most_text_size);
  if (const auto order = json.find("heap_order"); order != json.end() && order->is_string())
    for (std::size_t i = 0; i < heap_order_words.size(); ++i)
      if (order->get<std::string>() == heap_order_words.at(i)) settings.heap_order = static_cast<HeapOrder>(i);
  read_share(json, "timeline_share", settings.timeline_share);
  read_share(json, "inspector_share", settings.inspector_share);
  read_share(json, "bottom_share", settings.bottom_share);
  read_share(json, "map_share", settings.map_share);
  if (const auto recent = json.find("recent"); recent != json.end() && recent->is_array())
    for (const Json& name : *recent)
      if (name.is_string() && settings.recent.size() < most_recent) settings.recent.push_back(name.get<std::string>());
  return settings;
}

void save_settings(const std::filesystem::path& path, const Settings& settings) {
  if (path.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  const Json json{{"dark", settings.dark},
                  {"tour_done", settings.tour_done},
                  {"verdict", settings.verdict},
                  {"text_size", settings.text_size},
                  {"heap_order", heap_order_words.at(static_cast<std::size_t>(settings.heap_order))},
                  {"timeline_share", settings.timeline_share},
                  {"inspector_share", settings.inspector_share},
                  {"bottom_share", settings.bottom_share},
                  {"map_share", settings.map_share},
                  {"recent", settings.recent}};
  // Nothing depends on it: without the file, the next window has the defaults.
  static_cast<void>(write_whole(path, json.dump(2) + '\n'));
}

}  // namespace memreel::viewer
