// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/commands.h"

#include <GLFW/glfw3.h>
#include <imgui_internal.h>  // to close menus
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "viewer/app/viewer.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

/// Whether `text` contains the letters of `wanted` in order.
bool matches(const std::string& text, const std::string& wanted) {
  std::size_t next = 0;
  for (const char c : text)
    if (next < wanted.size() &&
        std::tolower(static_cast<unsigned char>(c)) == std::tolower(static_cast<unsigned char>(wanted[next])))
      ++next;
  return next == wanted.size();
}

/// Lower is better: is it, starts with it, contains it, contains its letters in order.
int distance(const std::string& text, const std::string& wanted) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  const auto found = std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same);
  if (found == text.begin()) return text.size() == wanted.size() ? 0 : 1;
  return found != text.end() ? 2 : 3;
}

}  // namespace

std::string label_of(std::string_view place) {
  std::string label(place);
  for (std::size_t at = 0; (at = label.find('/', at)) != std::string::npos; at += 2) label.replace(at, 1, ": ");
  return label;
}

void Commands::handle(std::span<const KeyPress> keys, std::span<const unsigned> characters, bool has_dialog) {
  if (palette_ || has_dialog) return;  // menus take all keys
  if (ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
    // Esc closes an open menu first.
    if (std::ranges::count(keys, GLFW_KEY_ESCAPE, &KeyPress::key) > 0) ImGui::ClosePopupToLevel(0, true);
    return;
  }
  constexpr int relevant = GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SHIFT | GLFW_MOD_SUPER;
  const bool typing = is_typing();
  for (const KeyPress& press : keys)
    for (const Command& command : commands_) {
      if (command.key == 0 || command.key != press.key || command.modifiers != (press.modifiers & relevant)) continue;
      const bool has_modifier = (command.modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) != 0;
      if (!typing || has_modifier || command.key == GLFW_KEY_ESCAPE) command.run();
    }
  if (typing) return;
  for (const unsigned character : characters)
    for (const Command& command : commands_)
      if (command.character != 0 && command.character == character) command.run();
}

std::string Commands::why_not(const Command& command) const {
  if (command.needs_trace && has_trace_ && !has_trace_()) return "no trace is open";
  return command.why_not ? command.why_not() : std::string();
}

const Command* Commands::find(std::string_view place) const {
  if (const auto known = by_place_.find(place); known != by_place_.end()) return known->second;
  const auto found = std::ranges::find_if(commands_, [&](const Command& c) { return is_at(c.place, place); });
  const Command* const command = found == commands_.end() ? nullptr : &*found;
  by_place_.emplace(place, command);
  return command;
}

std::optional<ButtonWords> Commands::at(std::string_view place) const {
  const Command* const command = find(place);
  if (command == nullptr) return std::nullopt;
  const std::string_view after = place.substr(place.find('/') + 1);
  return ButtonWords{.label = command->label.empty() ? std::string(after) : command->label,
                     .name = command->name + (command->shortcut.empty() ? "" : "   " + command->shortcut),
                     .hint = command->hint,
                     .why_not = why_not(*command)};
}

void Commands::run_pressed() {
  for (const std::string& place : std::exchange(pressed_, {}))
    if (const Command* const command = find(place)) command->run();
}

std::vector<const Command*> Commands::all() {
  passing_ = passing_of_ ? passing_of_() : std::vector<Command>();
  typed_.clear();
  return found();
}

/// Those that match what was typed, best first; of several with one name, with other keys, the first.
std::vector<const Command*> Commands::found() const {
  std::vector<const Command*> found;
  std::set<std::string_view> names;
  for (const auto* const commands : {&commands_, &passing_})
    for (const Command& command : *commands)
      if (matches(command.name, typed_) && names.insert(command.name).second) found.push_back(&command);
  if (!typed_.empty())
    std::ranges::stable_sort(found, {}, [&](const Command* command) { return distance(command->name, typed_); });
  return found;
}

void Commands::open_palette() {
  palette_ = opening_ = true;
  passing_ = passing_of_ ? passing_of_() : std::vector<Command>();
}

void Commands::draw_palette(const Window& window, const Theme& theme, std::map<std::string, ImVec4>& places) {
  if (!palette_) return;
  const float scale = window.scale();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float width = std::min(640 * scale, display.x * 0.9F);
  ImGui::SetNextWindowPos({(display.x - width) / 2, display.y * 0.14F});
  ImGui::SetNextWindowSize({width, 0});
  begin_dialog(theme, scale, "##palette", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  places["palette"] = {at.x, at.y, size.x, size.y};
  const bool opened = std::exchange(opening_, false);
  if (opened) {
    typed_.clear();
    refusal_.clear();
    chosen_ = 0;
    ImGui::SetWindowFocus();
    ImGui::SetKeyboardFocusHere();
  }
  // Enter ends the input; if nothing matches, keep it open.
  if (std::exchange(unfocused_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  if (ImGui::InputTextWithHint("##typed", "What do you want to do?", &typed_)) {
    chosen_ = 0;
    refusal_.clear();
  }
  unfocused_ = ImGui::IsItemDeactivated();
  const std::vector<const Command*> found = this->found();
  // From the window's list of keys, so that a key released within the same frame counts too.
  const auto pressed = [&](int key) {
    return static_cast<int>(std::ranges::count(window.keys(), key, &KeyPress::key));
  };
  const bool entered = !opened && window.entered();
  constexpr int most = 12;
  const int moved =
      pressed(GLFW_KEY_DOWN) - pressed(GLFW_KEY_UP) + most * (pressed(GLFW_KEY_PAGE_DOWN) - pressed(GLFW_KEY_PAGE_UP));
  if (moved != 0) refusal_.clear();
  chosen_ = std::clamp(chosen_ + moved, 0, std::max(0, static_cast<int>(found.size()) - 1));
  const Command* wanted = nullptr;
  const int first = std::max(0, chosen_ - most + 1);
  for (int i = first; i < std::min(static_cast<int>(found.size()), first + most); ++i) {
    const Command& command = *found[static_cast<std::size_t>(i)];
    const std::string why = why_not(command);
    ImGui::PushStyleColor(ImGuiCol_Text, why.empty() ? theme.text : theme.faint);
    const float room = width - ImGui::CalcTextSize(command.shortcut.c_str()).x - 40 * scale;
    if (ImGui::Selectable((fitting(command.name, room) + "##" + std::to_string(i)).c_str(), i == chosen_))
      wanted = &command;
    ImGui::PopStyleColor();
    if (i == chosen_) {
      const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
      ImGui::GetWindowDrawList()->AddRect(from, to, theme.accent, 2 * scale, 0, std::max(1.5F * scale, 1.0F));
    }
    if (command.shortcut.empty()) continue;
    ImGui::SameLine(width - ImGui::CalcTextSize(command.shortcut.c_str()).x - 20 * scale);
    ImGui::TextDisabled("%s", command.shortcut.c_str());
  }
  if (found.empty()) ImGui::TextDisabled("No such command.");
  if (entered && !found.empty()) wanted = found[static_cast<std::size_t>(chosen_)];
  if (wanted != nullptr) {
    refusal_ = why_not(*wanted);
    if (!refusal_.empty()) {
      wanted = nullptr;
      unfocused_ = true;
    }
  }
  const std::string why = found.empty() ? "" : why_not(*found[static_cast<std::size_t>(chosen_)]);
  if (!why.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, refusal_.empty() ? theme.faint : theme.alarm_ink);
    ImGui::TextWrapped("Not now: %s.", why.c_str());
    ImGui::PopStyleColor();
  }
  if (wanted != nullptr || pressed(GLFW_KEY_ESCAPE) > 0) palette_ = false;
  ImGui::End();
  if (wanted != nullptr) wanted->run();
}

namespace {

struct FocusHelp {
  const char* keys;
  const char* what;
};

constexpr FocusHelp focus_help[] = {
    {"Tab, Shift+Tab", "The next or previous part of the window"},
    {"arrows", "In a part: the next button; in a list: the next row or cell"},
    {"PgUp PgDn Home End", "In a list: a page, the first and the last row"},
    {"Enter", "What a click does"},
    {"Ctrl+Enter", "What a double click does"},
    {"Menu, Shift+F10", "What a right click does"},
    {"Up, Down", "Without the focus: into the list"},
    {"Esc", "Gives all other keys back to the timeline"},
};

}  // namespace

void Commands::draw_help(const Window& window, const Theme& theme, std::map<std::string, ImVec4>& places) {
  if (!help_) return;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float scale = window.scale();
  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(640 * scale, display.x * 0.9F), std::min(620 * scale, display.y * 0.9F)});
  begin_dialog(theme, scale, "Keys", &help_,
               ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoResize);
  const auto pressed = [&](int key) {
    return static_cast<float>(std::ranges::count(window.keys(), key, &KeyPress::key));
  };
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float by = 3 * line * (pressed(GLFW_KEY_DOWN) - pressed(GLFW_KEY_UP)) +
                   ImGui::GetWindowHeight() * 0.8F * (pressed(GLFW_KEY_PAGE_DOWN) - pressed(GLFW_KEY_PAGE_UP));
  if (by != 0) ImGui::SetScrollY(std::clamp(ImGui::GetScrollY() + by, 0.0F, ImGui::GetScrollMaxY()));
  ImGui::TextDisabled("wheel: zoom at the pointer (Ctrl finer, Shift coarser; over the map Alt: addresses)");
  ImGui::TextDisabled("left click: cursor and selection     left drag: cursor     right drag: pan");
  ImGui::TextDisabled("Shift + left drag: mark a range; lists show only it");
  ImGui::Separator();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  places["help"] = {at.x, at.y, size.x, size.y};
  const auto row = [&](const char* keys, const char* what) {
    ImGui::TextUnformatted(keys);
    ImGui::SameLine(150 * scale);
    ImGui::TextDisabled("%s", what);
  };
  for (const FocusHelp& help : focus_help) row(help.keys, help.what);
  ImGui::Separator();
  for (const Command& command : commands_)
    if (!command.shortcut.empty()) row(command.shortcut.c_str(), command.name.c_str());
  ImGui::End();
}

// Keys: for the control that has the focus, else for commands, else for the timeline.

namespace {

std::optional<FocusKey> focus_key(const KeyPress& press) {
  constexpr int relevant = GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SHIFT | GLFW_MOD_SUPER;
  const int with = press.modifiers & relevant;
  const bool is_enter = press.key == GLFW_KEY_ENTER || press.key == GLFW_KEY_KP_ENTER;
  if (press.key == GLFW_KEY_TAB && with == GLFW_MOD_SHIFT) return FocusKey::previous_part;
  if (press.key == GLFW_KEY_F10 && with == GLFW_MOD_SHIFT) return FocusKey::menu;
  if (is_enter && with == GLFW_MOD_CONTROL) return FocusKey::open;
  if (with != 0) return std::nullopt;
  switch (press.key) {
    case GLFW_KEY_TAB:
      return FocusKey::next_part;
    case GLFW_KEY_UP:
      return FocusKey::up;
    case GLFW_KEY_DOWN:
      return FocusKey::down;
    case GLFW_KEY_LEFT:
      return FocusKey::left;
    case GLFW_KEY_RIGHT:
      return FocusKey::right;
    case GLFW_KEY_PAGE_UP:
      return FocusKey::page_up;
    case GLFW_KEY_PAGE_DOWN:
      return FocusKey::page_down;
    case GLFW_KEY_HOME:
      return FocusKey::home;
    case GLFW_KEY_END:
      return FocusKey::end;
    case GLFW_KEY_ENTER:
    case GLFW_KEY_KP_ENTER:
      return FocusKey::press;
    case GLFW_KEY_SPACE:
      return FocusKey::space;
    case GLFW_KEY_MENU:
      return FocusKey::menu;
    case GLFW_KEY_ESCAPE:
      return FocusKey::leave;
    default:
      return std::nullopt;
  }
}

}  // namespace

/// Whether the focus took the key.
bool Viewer::move_focus(const KeyPress& press) {
  const auto key = focus_key(press);
  if (!key || commands_.palette_is_open() || commands_.help_is_open()) return false;
  const bool changes_part = key == FocusKey::next_part || key == FocusKey::previous_part;
  if (is_typing()) {
    if (!changes_part) return false;
    focus_.leave_field();
    return focus_.press(*key);
  }
  const bool enters = *key == FocusKey::up || *key == FocusKey::down;
  if (enters && shows_job() && !focus_.is_on() && focus_.enter("rank/")) return true;
  if (focus_.press(*key)) return true;
  if (tour_.is_on() && *key == FocusKey::press) {
    focus_.act_on("tour/next");
    return true;
  }
  return false;
}

void Viewer::handle_keys(double seconds) {
  const bool had_focus = focus_.is_on();
  std::vector<KeyPress> others;
  for (const KeyPress& press : window_.keys())
    if (!move_focus(press)) others.push_back(press);
  commands_.handle(others, window_.characters(), open_dialog_.is_open());
  if (const std::string missing = focus_.take_missing(); !missing.empty())
    notice_ = "There is no \u201C" + label_of(missing) + "\u201D here now";
  if (is_typing() || document_->empty() || shows_job()) return;
  const bool takes_arrows = had_focus || focus_.is_on() || open_dialog_.is_open();
  const auto held = [&](int key, int arrow) {
    return window_.is_held_alone(key) || (!takes_arrows && window_.is_held_alone(arrow));
  };
  const Nanoseconds anchor = selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  // A key that is held zooms five times in a second, and moves one and a half screens.
  const double t = std::min(seconds, 0.1);
  if (held(GLFW_KEY_W, GLFW_KEY_W)) selection_.zoom(*document_, std::pow(5.0, -t * 2), anchor);
  if (held(GLFW_KEY_S, GLFW_KEY_S)) selection_.zoom(*document_, std::pow(5.0, t * 2), anchor);
  if (held(GLFW_KEY_A, GLFW_KEY_LEFT)) selection_.pan(*document_, -1.5 * t);
  if (held(GLFW_KEY_D, GLFW_KEY_RIGHT)) selection_.pan(*document_, 1.5 * t);
}

}  // namespace memreel::viewer
