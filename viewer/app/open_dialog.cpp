// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/open_dialog.h"

#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>

#include "formats/model/printable.h"
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
  row_.reset();
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

std::optional<std::filesystem::path> OpenDialog::draw_entries(Scene& scene, const Window& window, bool in_path,
                                                              bool entered) {
  constexpr std::ptrdiff_t page = 10;
  ImGui::BeginChild("entries");
  const ImVec2 from = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  // Arrows move through the entries also while a part of a name is typed.
  std::ptrdiff_t by = 0;
  for (const FocusKey key : scene.focus.add_list("open/entries", from, {from.x + size.x, from.y + size.y})) {
    by += key == FocusKey::down        ? 1
          : key == FocusKey::up        ? -1
          : key == FocusKey::page_down ? page
          : key == FocusKey::page_up   ? -page
                                       : 0;
    entered = entered || key == FocusKey::press;
  }
  const auto pressed = [&](int key) { return std::ranges::count(window.keys(), key, &KeyPress::key); };
  if (in_path)
    by += pressed(GLFW_KEY_DOWN) - pressed(GLFW_KEY_UP) +
          page * (pressed(GLFW_KEY_PAGE_DOWN) - pressed(GLFW_KEY_PAGE_UP));
  const auto shown_entries = 1 + std::ranges::count_if(entries_, [&](const Entry& entry) { return is_shown(entry); });
  if (by != 0 || (!row_ && scene.focus.has("open/entries")))
    row_ = static_cast<std::size_t>(std::clamp((row_ ? static_cast<std::ptrdiff_t>(*row_) + by : std::ptrdiff_t{0}),
                                               std::ptrdiff_t{0}, shown_entries - 1));
  if (row_) scene.focus.set_row(*row_);
  std::optional<std::filesystem::path> clicked;
  std::size_t number = 0;
  const auto draw_entry = [&](const std::string& label, const std::string& place, const std::filesystem::path& path) {
    const bool is_row = row_ == number++;
    if (ImGui::Selectable(label.c_str(), is_row) || (is_row && entered)) clicked = path;
    if (is_row && by != 0) ImGui::SetScrollHereY();
    if (!ImGui::IsItemVisible()) return;
    const ImVec2 at = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    note_place(scene, place, {at.x, at.y, to.x, to.y});
  };
  draw_entry("..", "open/..", folder_.parent_path());
  for (const Entry& entry : entries_)
    if (is_shown(entry))
      draw_entry(printable(entry.name) + (entry.is_folder ? "/" : ""), "open/" + entry.name, folder_ / entry.name);
  ImGui::EndChild();
  return clicked;
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
  if (ImGui::InputTextWithHint("##path", "a file, a folder, or a part of a name", &typed_)) row_.reset();
  note_field(scene, "open/path");
  const bool in_path = ImGui::IsItemActive() || ImGui::IsItemDeactivated();
  const bool entered = item_entered(scene);
  if (entered) opening_ = true;  // goes on typing if the dialog stays
  if (entered && !row_ && !typed_.empty()) chosen = take(typed_);
  if (!problem_.empty()) ImGui::TextWrapped("%s", printable(problem_).c_str());
  check_box(scene, "open/all files", all_files_);
  if (recordings_ > 1) {
    ImGui::SameLine(0, scene.px(16));
    const std::string whole = "Open these " + std::to_string(recordings_) + " recordings as a job";
    if (push_button(scene, "open/job", {.says = whole, .is_large = true})) {
      open_ = false;
      chosen = folder_;
    }
  }
  const auto clicked = draw_entries(scene, window, in_path, entered);
  ImGui::End();
  if (clicked) chosen = take(*clicked);
  if (std::ranges::count(window.keys(), GLFW_KEY_ESCAPE, &KeyPress::key) > 0) open_ = false;
  return chosen;
}

}  // namespace memreel::viewer
