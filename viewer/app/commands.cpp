#include "viewer/app/commands.h"

#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_internal.h>  // to close menus
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <utility>

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

void Commands::draw_palette(const Window& window) {
  if (!palette_) return;
  const float scale = window.scale();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float width = std::min(560 * scale, display.x * 0.9F);
  ImGui::SetNextWindowPos({(display.x - width) / 2, display.y * 0.14F});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::Begin("##palette", nullptr,
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

void Commands::draw_help(const Window& window, std::map<std::string, ImVec4>& places) {
  if (!help_) return;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float scale = window.scale();
  ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(640 * scale, display.x * 0.9F), std::min(620 * scale, display.y * 0.9F)});
  ImGui::Begin("Keys", &help_,
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

}  // namespace memreel::viewer
