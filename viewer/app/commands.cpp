// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/commands.h"

#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_internal.h>  // to close menus
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "viewer/app/viewer.h"
#include "viewer/model/navigation.h"
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

/// Lower is better: starts with it, contains it, contains its letters in order.
int distance(const std::string& text, const std::string& wanted) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  const auto found = std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same);
  return found == text.begin() ? 0 : found != text.end() ? 1 : 2;
}

}  // namespace

void Commands::handle(const Window& window, bool has_dialog) {
  if (palette_ || has_dialog) return;  // menus take all keys
  if (ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup)) {
    // Esc closes an open menu first.
    if (std::ranges::count(window.keys(), GLFW_KEY_ESCAPE, &KeyPress::key) > 0) ImGui::ClosePopupToLevel(0, true);
    return;
  }
  constexpr int relevant = GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SHIFT | GLFW_MOD_SUPER;
  const bool typing = is_typing();
  for (const KeyPress& press : window.keys())
    for (const Command& command : commands_) {
      if (command.key != press.key || command.modifiers != (press.modifiers & relevant)) continue;
      const bool has_modifier = (command.modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) != 0;
      if (!typing || has_modifier || command.key == GLFW_KEY_ESCAPE) command.run();
    }
  if (typing) return;
  for (const unsigned character : window.characters())
    for (const Command& command : commands_)
      if (command.character != 0 && command.character == character) command.run();
}

void Commands::draw_palette(const Window& window, const Theme& theme) {
  if (!palette_) return;
  const float scale = window.scale();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float width = std::min(560 * scale, display.x * 0.9F);
  ImGui::SetNextWindowPos({(display.x - width) / 2, display.y * 0.14F});
  ImGui::SetNextWindowSize({width, 0});
  begin_dialog(theme, scale, "##palette", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  const bool opened = std::exchange(opening_, false);
  if (opened) {
    typed_.clear();
    chosen_ = 0;
    ImGui::SetWindowFocus();
    ImGui::SetKeyboardFocusHere();
  }
  // Enter ends the input; if nothing matches, keep it open.
  if (std::exchange(unfocused_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##typed", "What do you want to do?", &typed_);
  unfocused_ = ImGui::IsItemDeactivated();
  std::vector<const Command*> found;
  for (const Command& command : commands_)
    if (matches(command.name, typed_) && (found.empty() || found.back()->name != command.name))
      found.push_back(&command);
  if (!typed_.empty())
    std::ranges::stable_sort(found, {}, [&](const Command* command) { return distance(command->name, typed_); });
  // From the window's list of keys, so that a key released within the same frame counts too.
  const auto pressed = [&](int key) { return std::ranges::count(window.keys(), key, &KeyPress::key); };
  const bool entered = !opened && window.entered();
  chosen_ += static_cast<int>(pressed(GLFW_KEY_DOWN) - pressed(GLFW_KEY_UP));
  chosen_ = std::clamp(chosen_, 0, std::max(0, static_cast<int>(found.size()) - 1));
  const Command* wanted = nullptr;
  constexpr int most = 12;
  const int first = std::max(0, chosen_ - most + 1);
  for (int i = first; i < std::min(static_cast<int>(found.size()), first + most); ++i) {
    const Command& command = *found[static_cast<std::size_t>(i)];
    if (ImGui::Selectable(command.name.c_str(), i == chosen_)) wanted = &command;
    if (command.shortcut.empty()) continue;
    ImGui::SameLine(width - ImGui::CalcTextSize(command.shortcut.c_str()).x - 20 * scale);
    ImGui::TextDisabled("%s", command.shortcut.c_str());
  }
  if (found.empty()) ImGui::TextDisabled("No such command.");
  if (entered && !found.empty()) wanted = found[static_cast<std::size_t>(chosen_)];
  if (wanted != nullptr || pressed(GLFW_KEY_ESCAPE) > 0) palette_ = false;
  ImGui::End();
  if (wanted != nullptr) wanted->run();
}

void Commands::draw_help(const Window& window, const Theme& theme, std::map<std::string, ImVec4>& places) {
  if (!help_) return;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float scale = window.scale();
  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(640 * scale, display.x * 0.9F), std::min(620 * scale, display.y * 0.9F)});
  begin_dialog(theme, scale, "Keys", &help_,
               ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoResize);
  ImGui::TextDisabled("wheel: zoom at the pointer (Ctrl finer, Shift coarser; over the map Alt: addresses)");
  ImGui::TextDisabled("left click: cursor and selection     left drag: cursor     right drag: pan");
  ImGui::TextDisabled("Shift + left drag: mark a range; lists show only it");
  ImGui::Separator();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  places["help"] = {at.x, at.y, size.x, size.y};
  for (const Command& command : commands_) {
    if (command.shortcut.empty()) continue;
    ImGui::TextUnformatted(command.shortcut.c_str());
    ImGui::SameLine(130 * scale);
    ImGui::TextDisabled("%s", command.name.c_str());
  }
  ImGui::End();
}

// What keys and the palette do.

void Viewer::make_commands() {
  const auto add = [&](std::string name, std::string shortcut, int key, int modifiers, std::function<void()> run) {
    commands_.add({.name = std::move(name),
                   .shortcut = std::move(shortcut),
                   .run = std::move(run),
                   .key = key,
                   .modifiers = modifiers});
  };
  const auto add_character = [&](std::string name, char character, std::function<void()> run) {
    commands_.add({.name = std::move(name),
                   .shortcut = std::string(1, character),
                   .run = std::move(run),
                   .character = static_cast<unsigned>(character)});
  };
  const auto middle = [this] {
    return selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  };
  add("Zoom in", "W  +", 0, 0, [this, middle] { selection_.zoom(*document_, 0.75, middle()); });
  add("Zoom out", "S  -", 0, 0, [this, middle] { selection_.zoom(*document_, 1 / 0.75, middle()); });
  add_character("Zoom in one step", '+', [this, middle] { selection_.zoom(*document_, 0.75, middle()); });
  add_character("Zoom out one step", '-', [this, middle] { selection_.zoom(*document_, 1 / 0.75, middle()); });
  add("Earlier", "A", 0, 0, [this] { selection_.pan(*document_, -0.2); });
  add("Later", "D", 0, 0, [this] { selection_.pan(*document_, 0.2); });
  add("Zoom to the selection or marked range; again: all", "F", GLFW_KEY_F, 0,
      [this] { look_at_selected(*document_, selection_); });
  add("Show the whole trace", "0", GLFW_KEY_0, 0, [this] {
    selection_.look_at_all(*document_);
    selection_.remember();
  });
  add("Zoom out fully", "Home", GLFW_KEY_HOME, 0, [this] { selection_.look_at_all(*document_); });
  add("Mark the view, or the lifetime of the selection", "M", GLFW_KEY_M, 0, [this] {
    selection_.marked = selection_.allocation ? life_of(*document_, *selection_.allocation) : selection_.view;
  });
  add_character("Previous event", ',', [this] { step_event(*document_, selection_, -1); });
  add_character("Next event", '.', [this] { step_event(*document_, selection_, 1); });
  add_character("Previous mark or failure", '[', [this] { step_mark(*document_, selection_, -1); });
  add_character("Next mark or failure", ']', [this] { step_mark(*document_, selection_, 1); });
  add_character("Search stacks and addresses", '/', [this] { focus_search_ = true; });
  add_character("Next match of the search", 'n', [this] { match_step_ = 1; });
  add_character("Previous match of the search", 'N', [this] { match_step_ = -1; });
  add("Go to the peak of live bytes", "P", GLFW_KEY_P, 0, [this] {
    go_to("peak");
    selection_.remember();
  });
  add("Go to the peak of reserved bytes", "Shift+P", GLFW_KEY_P, GLFW_MOD_SHIFT, [this] {
    go_to("reserved-peak");
    selection_.remember();
  });
  add("Go to the first failure", "O", GLFW_KEY_O, 0, [this] {
    go_to("oom");
    layout_.show_tab("oom");
    selection_.remember();
  });
  add("Back", "Alt+Left", GLFW_KEY_LEFT, GLFW_MOD_ALT, [this] { selection_.go_back(); });
  add("Forward", "Alt+Right", GLFW_KEY_RIGHT, GLFW_MOD_ALT, [this] { selection_.go_forward(); });
  add("Undo the last zoom or jump", "Ctrl+Z", GLFW_KEY_Z, GLFW_MOD_CONTROL, [this] { selection_.go_back(); });
  add("Clear the selection", "Esc", GLFW_KEY_ESCAPE, 0, [this] {
    if (dismiss_notice()) return;
    if (commands_.help_is_open() || tour_.is_on()) {
      commands_.close_help();
      tour_.end();
    } else if (!selection_.search.empty()) {
      selection_.search.clear();
    } else if (!layout_.maximised().empty()) {
      layout_.maximise("");
    } else {
      selection_.clear();
    }
  });
  constexpr std::size_t digits = 9;
  for (std::size_t i = 0; i < digits; ++i)
    add("Show " + std::string(tab_names.at(i)), std::to_string(i + 1), GLFW_KEY_1 + static_cast<int>(i), 0,
        [this, i] { layout_.show_tab(tab_names.at(i)); });
  add("Show all heaps", "H", GLFW_KEY_H, 0, [this] {
    if (has_tab("heaps")) layout_.show_tab("heaps");
  });
  add("Show ranks", "R", GLFW_KEY_R, 0, [this] {
    if (ranks_) layout_.show_tab("ranks");
  });
  for (const std::string_view name : fixed_names)
    add("Show only the " + std::string(name), "", 0, 0, [this, name] { layout_.maximise(name); });
  add("Show all panes", "Esc", 0, 0, [this] { layout_.maximise(""); });
  add("Colour by category or by stack, in all panes", "C", GLFW_KEY_C, 0, [this] { switch_colours(); });
  for (std::size_t i = 0; i < colour_words.size(); ++i)
    add("Colour allocations by " + std::string(colour_words.at(i)), "", 0, 0,
        [this, i] { selection_.colour = static_cast<MapColour>(i); });
  for (std::size_t i = 0; i < split_words.size(); ++i) {
    const bool none = static_cast<SplitBy>(i) == SplitBy::nothing;
    add(none ? "Show live and reserved bytes" : "Split live bytes by " + std::string(split_words.at(i)), "", 0, 0,
        [this, i] { selection_.split = static_cast<SplitBy>(i); });
  }
  add("Replay other policies", "", 0, 0, [this] {
    layout_.show_tab("policies");
    panes_->policies.run();
  });
  add("Go to what decides, as the verdict says", "", 0, 0, [this] {
    if (const VerdictStrip* const strip = panes_->verdict.shown()) follow({.go = strip->headline.to, .overlay = {}});
  });
  add("Copy the setting that helps (PYTORCH_CUDA_ALLOC_CONF)", "", 0, 0, [this] { panes_->verdict.copy_setting(); });
  add("Overlay the setting that helps on the timeline", "", 0, 0, [this] {
    const VerdictStrip* const strip = panes_->verdict.shown();
    if (strip != nullptr && strip->offer) follow({.go = {}, .overlay = strip->offer->policy});
  });
  add("Show or hide the verdict above all panes", "V", GLFW_KEY_V, 0,
      [this] { settings_.verdict = !settings_.verdict; });
  add("Keep this instant for comparison", "K", GLFW_KEY_K, 0, [this] {
    selection_.kept = selection_.cursor;
    layout_.show_tab("compare");
  });
  add("Pause or resume following the file", "Space", GLFW_KEY_SPACE, 0, [this] { paused_ = !paused_; });
  add("Time, events or steps on the axis", "T", GLFW_KEY_T, 0,
      [this] { axis_ = static_cast<AxisBy>((static_cast<std::size_t>(axis_) + 1) % axis_words.size()); });
  add("Light or dark", "L", GLFW_KEY_L, 0, [this] { set_dark(!settings_.dark); });
  const auto larger = [this] { set_text_size(settings_.text_size * 1.1F); };
  const auto smaller = [this] { set_text_size(settings_.text_size / 1.1F); };
  add("Larger text", "Ctrl +", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL, larger);
  add("Larger text", "", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, larger);
  add("Larger text", "", GLFW_KEY_KP_ADD, GLFW_MOD_CONTROL, larger);
  add("Smaller text", "Ctrl -", GLFW_KEY_MINUS, GLFW_MOD_CONTROL, smaller);
  add("Smaller text", "", GLFW_KEY_KP_SUBTRACT, GLFW_MOD_CONTROL, smaller);
  add("Default text size", "Ctrl+0", GLFW_KEY_0, GLFW_MOD_CONTROL, [this] { set_text_size(1); });
  add("Open a file", "Ctrl+O", GLFW_KEY_O, GLFW_MOD_CONTROL, [this] { begin_to_open(); });
  add("Close the file", "Ctrl+W", GLFW_KEY_W, GLFW_MOD_CONTROL, [this] { close_wanted_ = true; });
  add("Commands", "Ctrl+Shift+P", GLFW_KEY_P, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, [this] { commands_.open_palette(); });
  add_character("Help: all keys", '?', [this] { commands_.toggle_help(); });
  add("Tour", "", 0, 0, [this] { begin_tour(); });
  add("Quit", "Ctrl+Q", GLFW_KEY_Q, GLFW_MOD_CONTROL, [this] { quit_ = true; });
}

void Viewer::handle_keys(double seconds) {
  commands_.handle(window_, open_dialog_.is_open());
  if (is_typing() || document_->empty()) return;
  const auto held = [&](int key, int other) { return window_.is_held_alone(key) || window_.is_held_alone(other); };
  const Nanoseconds anchor = selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  // A key that is held zooms five times in a second, and moves one and a half screens.
  const double t = std::min(seconds, 0.1);
  if (held(GLFW_KEY_W, GLFW_KEY_W)) selection_.zoom(*document_, std::pow(5.0, -t * 2), anchor);
  if (held(GLFW_KEY_S, GLFW_KEY_S)) selection_.zoom(*document_, std::pow(5.0, t * 2), anchor);
  if (held(GLFW_KEY_A, GLFW_KEY_LEFT)) selection_.pan(*document_, -1.5 * t);
  if (held(GLFW_KEY_D, GLFW_KEY_RIGHT)) selection_.pan(*document_, 1.5 * t);
}

}  // namespace memreel::viewer
