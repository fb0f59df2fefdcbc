// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/open_dialog.h"

#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "formats/model/stack_text.h"
#include "viewer/app/frames.h"
#include "viewer/model/ranks.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

constexpr std::size_t most_entries = 5'000;

/// Ignores case, of ASCII letters.
bool contains(std::string_view text, std::string_view part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

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
    // Of devices and pipes nothing can be said without waiting for them.
    const bool is_folder = file->is_directory(unknown), is_file = file->is_regular_file(unknown);
    if (!name.starts_with('.'))
      entries.push_back({.name = std::move(name),
                         .is_folder = is_folder,
                         .readable = is_file ? std::nullopt : std::optional(is_folder)});
  }
  problem_ = problem ? wanted.string() + " can't be listed: " + problem.message() : std::string();
  if (problem) return;
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(!e.is_folder, e.name); });
  folder_ = std::move(wanted);
  entries_ = std::move(entries);
  looked_at_ = recordings_ = 0;
  typed_.clear();
}

void OpenDialog::look() {
  constexpr double most_ms = 4;
  for (const auto begin = Clock::now(); looked_at_ < entries_.size() && milliseconds_since(begin) < most_ms;) {
    Entry& entry = entries_[looked_at_++];
    if (!entry.readable) entry.readable = may_be_opened(folder_ / entry.name);
    if (!entry.is_folder && *entry.readable) ++recordings_;
  }
  if (looked_at_ < entries_.size()) Window::wake();
}

bool OpenDialog::is_shown(const Entry& entry) const {
  return contains(entry.name, typed_) && (all_files_ || entry.readable.value_or(false));
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
    const auto named = std::ranges::find_if(entries_, [&](const Entry& entry) { return is_shown(entry); });
    if (named != entries_.end()) return take(folder_ / named->name);
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
  begin_dialog(scene.theme, scene.scale, "##open", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  if (std::exchange(opening_, false)) {
    ImGui::SetWindowFocus();
    ImGui::SetKeyboardFocusHere();
  }
  look();
  std::optional<std::filesystem::path> chosen;
  ImGui::TextUnformatted(printable(folder_.string()).c_str());
  ImGui::SetNextItemWidth(-1);
  ImGui::InputTextWithHint("##path", "a file, a folder, or a part of a name", &typed_);
  note_item(scene, "open/path");
  if (item_entered(scene) && !typed_.empty()) chosen = take(typed_);
  if (!problem_.empty()) ImGui::TextWrapped("%s", printable(problem_).c_str());
  check_box(scene, "all files", all_files_);
  note_item(scene, "open/all files");
  if (recordings_ > 1) {
    ImGui::SameLine(0, scene.px(16));
    const std::string whole = "Open these " + std::to_string(recordings_) + " recordings as a job";
    if (ImGui::Button(whole.c_str())) {
      open_ = false;
      chosen = folder_;
    }
    note_item(scene, "open/job");
  }
  ImGui::BeginChild("entries");
  std::optional<std::filesystem::path> clicked;
  if (ImGui::Selectable("..")) clicked = folder_.parent_path();
  note_item(scene, "open/..");
  for (const Entry& entry : entries_) {
    if (!is_shown(entry)) continue;
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
