// Where the panes are, and what surrounds them.
#include <GLFW/glfw3.h>
#include <imgui.h>
// after imgui.h
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/sample_trace.h"
#include "viewer/app/viewer.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

struct Stop {
  const char* pane;
  const char* title;
  const char* text;
};

constexpr std::array<Stop, 6> tour{{
    {"verdict", "What it comes down to",
     "What decides, who holds the peak, what leaks, and the setting that helps. Click any of it to see where."},
    {"timeline", "All of time",
     "What was reserved from the driver, and what was live in it. The wheel zooms where the pointer is, "
     "W A S D move, a click puts the cursor, a drag measures."},
    {"map", "Every allocation",
     "Addresses upwards, time to the right. Point at a rectangle to see who made it; the same "
     "allocation lights up in every pane. Click to keep it."},
    {"heap", "The heap at the cursor",
     "Segments in address order, a lane for each pool and stream; what is dark is free. The "
     "largest free block is outlined. Press . and , to go from event to event."},
    {"inspector", "Who, when, why", "The life of what is selected, and its stack with your own line first."},
    {"bottom", "Lists and replays",
     "Allocations, stacks, a flame graph, segments, failures; and Policies: what another "
     "allocator would have reserved. Press ? for all keys."},
}};

/// "map" of "map pane"; empty where there is no such pane.
std::string_view title_of_pane(std::string_view child) {
  constexpr std::string_view suffix = " pane";
  if (!child.ends_with(suffix) || child == "lists pane") return {};
  return child.substr(0, child.size() - suffix.size());
}

Area area_of(ImVec4 place) { return {place.x, place.y, place.x + place.z, place.y + place.w}; }

}  // namespace

void Viewer::draw() {
  const double now = glfwGetTime();
  const double seconds = last_frame_ == 0 ? 0 : now - last_frame_;
  last_frame_ = now;
  ++frames_;
  if (std::exchange(close_wanted_, false)) close();
  if (const std::string file = std::exchange(wanted_file_, {}); !file.empty()) open(file);
  if (std::exchange(tour_wanted_, false)) begin_tour();
  if (ranks_) choose(std::exchange(choice_, {}));
  follow_document();
  if (const auto& dropped = window_.dropped_files(); dropped.size() > 1)
    open_ranks({dropped.begin(), dropped.end()});
  else if (!dropped.empty())
    open(dropped.front());
  const std::uint32_t cursor_before = selection_.cursor;
  handle_keys(seconds);
  if (selection_.cursor != cursor_before) cursor_follows_ = false;

  selection_.cursor = std::min(selection_.cursor, document_->event_count());
  places_.clear();
  busy_ = (ranks_ != nullptr && !ranks_->complete()) || (prediction_ != nullptr && prediction_->result() == nullptr);
  update_judged(now);
  update_classification();
  update_axis();
  update_heap();
  Scene scene{.document = document_,
              .file = source_ ? source_->file() : nullptr,
              .memory_limit = memory_limit_,
              .selection = selection_,
              .theme = theme_,
              .scale = window_.scale(),
              .heap = heap_,
              .live = live_,
              .rounding = panes_->rounding,
              .classification = panes_->classification.value(),
              .classifying = !panes_->classification.is_current(),
              .judged_events = judged_events_,
              .findings = panes_->verdicts.known(),
              .overlays = overlays_,
              .places = places_,
              .enter = window_.entered(),
              .busy = busy_,
              .wake = [] { Window::wake(); }};

  const ImGuiIO& io = ImGui::GetIO();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(io.DisplaySize);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::Begin("memreel", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar(2);  // menus and tooltips have both
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  panes_->policies.update(scene);
  panes_->allocations.step_match(scene, std::exchange(match_step_, 0));
  draw_top_bar(scene);
  if (!source_ || status().stage == Stage::failed || document_->empty())
    draw_welcome(scene);
  else
    draw_panes(scene);
  ImGui::End();
  ImGui::PopStyleVar();
  commands_.draw_palette(window_);
  if (const auto file = open_dialog_.draw(scene, window_)) wanted_file_ = file->string();
  if (help_) draw_help();
  draw_tour(scene);

  // A view that is moved by hand stays where it is when the trace grows; so does the cursor.
  if (selection_.cursor != cursor_before && cursor_before != 0) cursor_follows_ = false;
  remember_view(now);
  selection_.end_frame();
}

void Viewer::draw_named(Scene& scene, std::string_view name) {
  if (name == "verdict")
    follow(panes_->verdict.draw(scene, panes_->verdicts));
  else if (name == "timeline")
    panes_->timeline.draw(scene);
  else if (name == "map")
    panes_->map.draw(scene, panes_->verdicts);
  else if (name == "heap")
    panes_->heap.draw(scene, panes_->verdicts);
  else if (name == "inspector")
    panes_->inspector.draw(scene);
  else if (name == "allocations")
    panes_->allocations.draw(scene);
  else if (name == "stacks")
    panes_->stacks.draw(scene, panes_->verdicts);
  else if (name == "flame")
    panes_->flame.draw(scene, panes_->verdicts);
  else if (name == "segments")
    panes_->segments.draw(scene);
  else if (name == "oom")
    panes_->failures.draw(scene, panes_->verdicts);
  else if (name == "leaks")
    panes_->leaks.draw(scene, panes_->verdicts);
  else if (name == "fragmentation")
    panes_->fragmentation.draw(scene, panes_->verdicts);
  else if (name == "compare")
    panes_->compare.draw(scene);
  else if (name == "policies")
    panes_->policies.draw(scene);
  else if (name == "ranks" && ranks_)
    draw_rank_grid(scene);
  else if (name == "prediction" && prediction_)
    draw_prediction(scene, prediction_->result().get());
}

void Viewer::draw_rank_grid(Scene& scene) {
  if (const RankChoice choice = draw_ranks(scene, *ranks_, source_->path()); choice.show || choice.compare)
    choice_ = choice;
}

void Viewer::splitter(const char* name, bool vertical, float total, float sign, float& share) {
  const float thickness = 5 * window_.scale();
  const ImVec2 at = ImGui::GetCursorScreenPos(), avail = ImGui::GetContentRegionAvail();
  const ImVec2 size =
      vertical ? ImVec2{thickness, std::max(avail.y, 1.0F)} : ImVec2{std::max(avail.x, 1.0F), thickness};
  fill(*ImGui::GetWindowDrawList(), {at.x, at.y, at.x + size.x, at.y + size.y}, theme_.ground);
  ImGui::InvisibleButton(name, size);
  if (ImGui::IsItemHovered() || ImGui::IsItemActive())
    ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
  if (ImGui::IsItemActive() && total > 0) {
    const ImVec2 by = ImGui::GetIO().MouseDelta;
    share = std::clamp(share + sign * (vertical ? by.x : by.y) / total, 0.12F, 0.8F);
  }
}

void Viewer::draw_panes(Scene& scene) {
  const ImVec2 padding{scene.px(10), scene.px(7)};
  const auto pane = [&](const char* name, ImVec2 size, const auto& contents) {
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
    ImGui::BeginChild(
        name, size, false,
        ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
    ImGui::PopStyleVar();
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(8), scene.px(4)});
    contents();
    ImGui::PopStyleVar();
    // A double click on the line that a pane begins with, where nothing is that could be clicked.
    const ImVec2 at = ImGui::GetWindowPos();
    const Area title{at.x, at.y, at.x + ImGui::GetWindowWidth(), at.y + padding.y + ImGui::GetFrameHeight()};
    const std::string_view pane_name = title_of_pane(name);
    note_place(scene, "title/" + std::string(pane_name), title);
    if (!pane_name.empty() && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) && !ImGui::IsAnyItemHovered() &&
        title.contains(ImGui::GetIO().MousePos) && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
      wanted_maximised_ = maximised_.empty() ? std::string(pane_name) : std::string();
    ImGui::EndChild();
  };
  if (wanted_maximised_) maximise(*std::exchange(wanted_maximised_, std::nullopt));
  if (!maximised_.empty()) {
    const bool is_tab = std::ranges::find(tab_names, maximised_) != tab_names.end();
    pane((maximised_ + (is_tab ? "" : " pane")).c_str(), {0, 0}, [&] {
      if (is_tab)
        draw_bottom(scene);
      else
        draw_named(scene, maximised_);
    });
    return;
  }
  if (settings_.verdict) {
    pane("verdict pane", {0, VerdictPane::strip_height(scene)},
         [&] { follow(panes_->verdict.draw_strip(scene, panes_->verdicts)); });
    const ImVec2 below = ImGui::GetCursorScreenPos();
    fill(*ImGui::GetWindowDrawList(), {0, below.y, ImGui::GetIO().DisplaySize.x, below.y + scene.px(1)}, theme_.ground);
    ImGui::Dummy({0, scene.px(1)});
  }
  const ImVec2 all = ImGui::GetContentRegionAvail();
  const float gap = scene.px(5);
  const float bottom = std::floor(all.y * settings_.bottom_share), top = std::floor(all.y * settings_.timeline_share);
  const float above = all.y - bottom - gap, middle = above - top - gap;
  const float right = std::floor(all.x * settings_.inspector_share), left = all.x - right - gap;
  // What has time on it is one column: one axis.
  ImGui::BeginChild("above", {0, above});
  ImGui::BeginChild("left", {left, 0});
  pane("timeline pane", {0, top}, [&] { panes_->timeline.draw(scene); });
  splitter("below timeline", false, all.y, 1, settings_.timeline_share);
  const float map = std::floor((middle - gap) * settings_.map_share);
  pane("map pane", {0, map}, [&] { panes_->map.draw(scene, panes_->verdicts); });
  splitter("below map", false, middle, 1, settings_.map_share);
  pane("heap pane", {0, 0}, [&] { panes_->heap.draw(scene, panes_->verdicts); });
  ImGui::EndChild();
  ImGui::SameLine(0, 0);
  splitter("beside inspector", true, all.x, -1, settings_.inspector_share);
  ImGui::SameLine(0, 0);
  pane("inspector pane", {0, 0}, [&] { panes_->inspector.draw(scene); });
  ImGui::EndChild();
  splitter("above lists", false, all.y, -1, settings_.bottom_share);
  pane("lists pane", {0, 0}, [&] { draw_bottom(scene); });
}

void Viewer::follow(const VerdictAction& action) {
  if (action.go) {
    const Destination& to = *action.go;
    maximised_.clear();
    if (to.heap != HeapId::none) selection_.heap = to.heap;
    if (to.cursor) {
      selection_.cursor = *to.cursor;
      cursor_follows_ = false;
    }
    if (to.stack) selection_.select(*to.stack);
    if (to.category) selection_.category = to.category;
    if (!to.tab.empty()) show_tab(to.tab);
    selection_.remember();
  }
  if (action.overlay.empty()) return;
  show_tab("policies");
  panes_->policies.overlay(action.overlay);
}

void Viewer::draw_bottom(Scene& scene) {
  const ImVec2 from = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "bottom", {from.x, from.y, from.x + size.x, from.y + size.y});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (const std::string_view name : tab_names) {
    if (!has_tab(name)) continue;
    std::string title = name == "oom" ? "OOM" : std::string(name);
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    const std::uint64_t count = name == "oom"     ? document_->columns.failure.size()
                                : name == "leaks" ? panes_->verdicts.leaks()
                                                  : 0;
    if (count != 0) title += " " + text_of(count);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 extent{ImGui::CalcTextSize(title.c_str()).x, ImGui::GetTextLineHeight() + scene.px(6)};
    if (ImGui::InvisibleButton(std::string(name).c_str(), extent)) show_tab(name);
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
      wanted_maximised_ = maximised_.empty() ? std::string(name) : std::string();
    const Area area{at.x, at.y, at.x + extent.x, at.y + extent.y};
    note_place(scene, "tab/" + std::string(name), area);
    const bool active = tab_ == name;
    const bool alarming = count != 0;
    text(list, at, active || ImGui::IsItemHovered() ? theme_.text : alarming ? theme_.alarm : theme_.faint, title);
    if (active)
      fill(list, {at.x, area.bottom - scene.px(2), area.right, area.bottom}, alarming ? theme_.alarm : theme_.accent);
    ImGui::SameLine(0, scene.px(20));
  }
  if (tab_ == "allocations") {
    AllocationsPane::draw_filter(scene);
    ImGui::SameLine();
    panes_->allocations.draw_progress(scene);
  }
  ImGui::NewLine();
  draw_named(scene, tab_);
}

Viewer::Welcome Viewer::welcome() const {
  const SourceStatus status = this->status();
  if (!source_)
    return {"Drop a trace here, or run: memreel view FILE", "A .reel, or anything that memreel import reads"};
  const std::string file = source_->path().filename().string();
  if (status.stage == Stage::failed && status.error)
    return {file + " can't be shown: " + status.error->what,
            status.error->remedy.empty() ? status.error->message() : status.error->remedy};
  if (status.stage != Stage::complete)
    return {(status.stage == Stage::importing ? "Importing " : "Reading ") + file + "  " +
                std::to_string(static_cast<int>(status.progress * 100)) + " %",
            {}};
  const std::vector<std::string> lacking = shortcomings(*document_);
  if (lacking.empty())
    return {file + " is a trace without events.",
            status.followed ? "It has no footer, so it may still be written: what comes appears here." : ""};
  const std::uint64_t lost = document_->read.missing_events;
  return {file + (lost != 0 ? " is damaged: all of its " + text_of(lost) + " events are lost." : " has no event left."),
          lacking.front()};
}

void Viewer::begin_to_open() {
  const std::filesystem::path here = source_ ? source_->path() : std::filesystem::path();
  std::error_code unknown;
  const std::filesystem::path folder = here.empty() ? here : std::filesystem::absolute(here, unknown).parent_path();
  open_dialog_.open(folder);
}

/// What to do where nothing is shown: open a file, one of the last, or the sample.
void Viewer::draw_start(Scene& scene) {
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(10), scene.px(7)});
  const float left = std::max((ImGui::GetContentRegionAvail().x - scene.px(620)) / 2, scene.px(16));
  const auto line = [&] { ImGui::SetCursorPosX(left); };
  line();
  if (ImGui::Button("Open\u2026")) begin_to_open();
  note_item(scene, "start/open");
  if (!sample_trace().empty()) {
    ImGui::SameLine();
    if (ImGui::Button("Tour of a sample")) tour_wanted_ = true;
    note_item(scene, "start/tour");
  }
  ImGui::Dummy({0, scene.px(6)});
  if (!settings_.recent.empty()) {
    line();
    ImGui::TextDisabled("opened last");
  }
  for (std::size_t i = 0; i < settings_.recent.size(); ++i) {
    line();
    ImGui::PushID(static_cast<int>(i));
    const std::string shown = fitting(printable(settings_.recent[i]), scene.px(620));
    if (ImGui::Selectable(shown.c_str(), false, 0, {scene.px(620), 0})) wanted_file_ = settings_.recent[i];
    ImGui::PopID();
    note_item(scene, "start/recent " + std::to_string(i + 1));
  }
  ImGui::Dummy({0, scene.px(6)});
  line();
  ImGui::TextDisabled("Any program is recorded by:   memreel record -- python train.py");
  ImGui::PopStyleVar();
}

void Viewer::draw_welcome(Scene& scene) {
  const SourceStatus status = this->status();
  const bool is_busy = source_ && (status.stage == Stage::importing || status.stage == Stage::reading);
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  const Area area{at.x, at.y, at.x + size.x, at.y + size.y};
  note_place(scene, "welcome", area);
  const Welcome welcome = this->welcome();
  if (is_busy) return explain(scene, area, welcome.what, welcome.remedy);
  explain(scene, {area.left, area.top, area.right, area.top + size.y * 0.4F}, welcome.what, welcome.remedy);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + size.y * 0.3F);
  draw_start(scene);
}

void Viewer::draw_help() {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float scale = window_.scale();
  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(640 * scale, display.x * 0.9F), std::min(620 * scale, display.y * 0.9F)});
  ImGui::Begin("Keys", &help_,
               ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoResize);
  ImGui::TextDisabled("wheel: zoom at the pointer (Ctrl finer, Shift coarser; over the map Alt: addresses)");
  ImGui::TextDisabled("left click: cursor and selection     left drag: measure     right drag: move");
  ImGui::Separator();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  places_["help"] = {at.x, at.y, size.x, size.y};
  for (const Command& command : commands_.all()) {
    if (command.shortcut.empty()) continue;
    ImGui::TextUnformatted(command.shortcut.c_str());
    ImGui::SameLine(130 * scale);
    ImGui::TextDisabled("%s", command.name.c_str());
  }
  ImGui::End();
}

void Viewer::draw_tour(Scene& scene) {
  if (document_->empty() || !document_->complete) return;  // what it shows is not there yet
  if (tour_step_ < 0) {
    if (settings_.tour_done) return;
    tour_step_ = 0;
  }
  settings_.tour_done = true;
  if (tour_step_ >= static_cast<int>(tour.size()) || !maximised_.empty()) {
    tour_step_ = -1;
    return;
  }
  const Stop& stop = tour.at(static_cast<std::size_t>(tour_step_));
  const auto place = places_.find(stop.pane);
  if (place == places_.end()) {
    ++tour_step_;  // it is not on screen
    return;
  }
  const Area area = area_of(place->second);
  outline(*ImGui::GetForegroundDrawList(), area, theme_.accent, scene.px(2));
  // Beside what it speaks of, so that neither hides the other.
  const float width = scene.px(360), height = scene.px(130), gap = scene.px(8);
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImVec2 at{std::clamp((area.left + area.right - width) / 2, 0.0F, std::max(display.x - width, 0.0F)), 0};
  if (area.bottom + gap + height <= display.y) {
    at.y = area.bottom + gap;
  } else if (area.top - gap - height >= 0) {
    at.y = area.top - gap - height;
  } else {
    at = {std::max(area.left - gap - width, 0.0F), (area.top + area.bottom - height) / 2};
  }
  ImGui::SetNextWindowPos(at);
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, scene.px(1));
  ImGui::PushStyleColor(ImGuiCol_Border, theme_.accent);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, mix(theme_.panel, theme_.accent, 0.12));
  ImGui::Begin("##tour", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleColor(2);
  ImGui::PopStyleVar();
  const ImVec2 from = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  note_place(scene, "tour", {from.x, from.y, from.x + size.x, from.y + size.y});
  ImGui::TextUnformatted(stop.title);
  ImGui::PushStyleColor(ImGuiCol_Text, theme_.faint);
  ImGui::TextWrapped("%s", stop.text);
  ImGui::PopStyleColor();
  ImGui::Spacing();
  const bool is_last = tour_step_ + 1 == static_cast<int>(tour.size());
  if (ImGui::Button(is_last ? "Done" : "Next")) ++tour_step_;
  note_item(scene, "tour/next");
  ImGui::SameLine();
  if (ImGui::Button("Skip")) tour_step_ = static_cast<int>(tour.size());
  ImGui::End();
}

}  // namespace memreel::viewer
