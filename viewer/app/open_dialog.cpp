// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/open_dialog.h"

#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <utility>

#include "formats/model/stack_text.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

constexpr std::size_t most_entries = 5'000;

}  // namespace

void OpenDialog::list(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::path wanted = std::filesystem::absolute(folder, problem).lexically_normal();
  if (!wanted.has_filename()) wanted = wanted.parent_path();
  std::vector<Entry> entries;
  std::filesystem::directory_iterator file(wanted, std::filesystem::directory_options::skip_permission_denied, problem);
  for (; !problem && file != std::filesystem::directory_iterator() && entries.size() < most_entries;
       file.increment(problem)) {
    std::error_code unknown;
    std::string name = file->path().filename().string();
    if (!name.starts_with('.')) entries.push_back({std::move(name), file->is_directory(unknown)});
  }
  problem_ = problem ? wanted.string() + " can't be listed: " + problem.message() : std::string();
  if (problem) return;
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(!e.is_folder, e.name); });
  folder_ = std::move(wanted);
  entries_ = std::move(entries);
  typed_.clear();
}

void OpenDialog::open(const std::filesystem::path& folder) {
  open_ = opening_ = true;
  list(folder.empty() ? std::filesystem::path(".") : folder);
}

std::optional<std::filesystem::path> OpenDialog::take(const std::filesystem::path& path) {
  const std::filesystem::path wanted = path.is_absolute() ? path : folder_ / path;
  std::error_code unknown;
  if (std::filesystem::is_directory(wanted, unknown)) {
    list(wanted);
    return std::nullopt;
  }
  if (!std::filesystem::exists(wanted, unknown)) {
    problem_ = wanted.string() + " is not there";
    return std::nullopt;
  }
  open_ = false;
  return wanted;
}

std::optional<std::filesystem::path> OpenDialog::draw(Scene& scene, const Window& window) {
  if (!open_) return std::nullopt;
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float width = std::min(scene.px(640), display.x * 0.9F);
  ImGui::SetNextWindowPos({(display.x - width) / 2, display.y * 0.1F});
  ImGui::SetNextWindowSize({width, display.y * 0.7F});
  ImGui::Begin("##open", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  if (std::exchange(opening_, false)) {
    ImGui::SetWindowFocus();
    ImGui::SetKeyboardFocusHere();
  }
  std::optional<std::filesystem::path> chosen;
  ImGui::TextUnformatted(printable(folder_.string()).c_str());
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##path", "a file, a folder, or a part of a name", &typed_);
  note_item(scene, "open/path");
  if (item_entered(scene) && !typed_.empty()) chosen = take(typed_);
  if (!problem_.empty()) ImGui::TextWrapped("%s", printable(problem_).c_str());
  ImGui::BeginChild("entries");
  std::optional<std::filesystem::path> clicked;
  if (ImGui::Selectable("..")) clicked = folder_.parent_path();
  note_item(scene, "open/..");
  for (const Entry& entry : entries_) {
    if (entry.name.find(typed_) == std::string::npos) continue;
    const std::string shown = printable(entry.name) + (entry.is_folder ? "/" : "");
    if (ImGui::Selectable(shown.c_str())) clicked = folder_ / entry.name;
    if (ImGui::IsItemVisible()) note_item(scene, "open/" + entry.name);
  }
  ImGui::EndChild();
  ImGui::End();
  if (clicked) chosen = take(*clicked);
  if (std::ranges::count(window.keys(), GLFW_KEY_ESCAPE, &KeyPress::key) > 0) open_ = false;
  return chosen;
}

}  // namespace memreel::viewer
