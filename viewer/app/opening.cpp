// SPDX-License-Identifier: Apache-2.0
// Opens files: what is shown stays until another file is known to be readable.
#include <imgui.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "viewer/app/viewer.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

std::string title_of(const std::filesystem::path& file, std::size_t files) {
  return printable(file.filename().string()) + (files < 2 ? "" : " and " + std::to_string(files - 1) + " more") +
         " - memreel";
}

std::string job_name(std::span<const std::filesystem::path> files) {
  std::filesystem::path folder = files.front().parent_path();
  const auto is_inside = [&](const std::filesystem::path& file) {
    return std::ranges::mismatch(folder, file).in1 == folder.end();
  };
  while (folder.has_relative_path() && !std::ranges::all_of(files, is_inside)) folder = folder.parent_path();
  const std::string called = printable(folder.filename().string());
  return "job " + (called.empty() ? "" : called + ", ") + counted(files.size(), "recording");
}

}  // namespace

void Viewer::open(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(file, unknown))
    return open(std::make_unique<Source>(
        file, [] { Window::wake(); }, memory_limit_));
  auto files = recordings_in(std::vector{file});
  if (!files) return complain(files.error());
  if (files->size() != 1) return open_ranks(*std::move(files));
  open(files->front());
  look_for_missing_ranks(files->front());
}

void Viewer::look_for_missing_ranks(const std::filesystem::path& file) {
  alone_ = std::make_unique<const Ranks>(
      std::vector{file}, [] { Window::wake(); }, memory_limit_);
}

void Viewer::tell_missing_ranks() {
  if (!alone_ || opening_) return;
  const bool is_shown = source_ && source_->path() == alone_->files().front();
  const auto overview = alone_->overview();
  if (is_shown && !overview) return;
  auto alone = std::exchange(alone_, nullptr);
  if (!is_shown || overview->jobs.empty() || !overview->jobs.front().misses_ranks) return;
  ranks_pane_ = RanksPane();
  ranks_ = std::move(alone);
  job_name_ = job_name(ranks_->files());
  notice_ = overview->jobs.front().headline;
}

void Viewer::open_ranks(std::vector<std::filesystem::path> files) {
  notice_.clear();
  opening_.reset();
  close();
  ranks_pane_ = RanksPane();
  ranks_ = std::make_unique<const Ranks>(
      std::move(files), [] { Window::wake(); }, memory_limit_);
  wants_decider_ = true;
  layout_.maximise("ranks");
  job_name_ = job_name(ranks_->files());
  window_.set_title(job_name_ + " - memreel");
}

/// Behind the answer, so that it is there at once when that is closed.
void Viewer::open_decider() {
  const auto overview = wants_decider_ && ranks_ ? ranks_->overview() : nullptr;
  if (!overview) return;
  wants_decider_ = false;
  std::optional<std::size_t> file;
  for (const JobOverview& job : overview->jobs)
    if (!file) file = job.decider;
  for (std::size_t i = 0; i < ranks_->files().size() && !file; ++i)
    if (ranks_->series(i)->problem.empty()) file = i;
  if (!file) return;
  // What was asked for on the command line is of this file.
  const std::string other = panes_->compare.other();
  auto instant = std::exchange(wanted_instant_, std::nullopt);
  show(std::make_unique<Source>(
           ranks_->files()[*file], [] { Window::wake(); }, memory_limit_),
       false);
  if (!other.empty()) panes_->compare.set_other(other);
  wanted_instant_ = std::move(instant);
  if (wanted_instant_) cursor_follows_ = false;
}

void Viewer::open_prediction(std::unique_ptr<const PredictionJob> prediction) {
  open(prediction->recordings().back().file);
  prediction_ = std::move(prediction);
  layout_.show_tab("prediction");
}

void Viewer::open(std::unique_ptr<Source> source, bool is_sample) {
  notice_.clear();
  wants_decider_ = false;
  opening_.reset();
  if (source_ && !document_->empty()) {
    opening_.emplace(Opening{.source = std::move(source), .is_sample = is_sample});
    return;
  }
  show(std::move(source), is_sample);
}

void Viewer::show(std::unique_ptr<Source> source, bool is_sample) {
  close();
  source_ = std::move(source);  // what has been read appears in the next frame
  is_sample_ = is_sample;
  is_remembered_ = false;
}

void Viewer::close() {
  source_.reset();
  forget_document();
}

void Viewer::complain(const Error& error) {
  notice_ = error.message();
  opening_.reset();
}

void Viewer::follow_opening() {
  if (opening_) {
    const SourceStatus status = opening_->source->status();
    const bool has_events = !opening_->source->document()->empty();
    if (status.stage == Stage::failed && status.error) {
      complain(*status.error);
    } else if (status.stage == Stage::complete || (status.stage == Stage::reading && has_events)) {
      // An import may still fail after its first events.
      Opening opened = *std::exchange(opening_, std::nullopt);
      show(std::move(opened.source), opened.is_sample);
    }
  }
  if (!source_ || is_remembered_) return;
  const Stage stage = status().stage;
  if (stage != Stage::complete && (stage != Stage::reading || source_->document()->empty())) return;
  is_remembered_ = true;
  if (!is_sample_) remember(source_->path());
  window_.set_title(title_of(source_->path(), ranks_ ? ranks_->files().size() : 1));
}

void Viewer::remember(const std::filesystem::path& file) {
  std::error_code unknown;
  const std::string name = std::filesystem::absolute(file, unknown).string();
  std::erase(settings_.recent, name);
  settings_.recent.insert(settings_.recent.begin(), name);
  if (settings_.recent.size() > most_recent) settings_.recent.resize(most_recent);
}

void Viewer::draw_notice(Scene& scene) {
  if (!opening_ && notice_.empty()) return;
  const Theme& theme = scene.theme;
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {scene.px(12), scene.px(5)});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, mix(theme.panel, opening_ ? theme.accent : theme.alarm, 0.25));
  const float width = ImGui::GetContentRegionAvail().x - scene.px(110);
  std::string said = notice_;
  if (opening_) {
    const SourceStatus status = opening_->source->status();
    said = (status.stage == Stage::importing ? "Importing " : "Opening ") +
           opening_->source->path().filename().string() + "  " +
           std::to_string(static_cast<int>(status.progress * 100)) + " %";
  }
  said = printable(said);
  const float height = ImGui::CalcTextSize(said.c_str(), nullptr, false, width).y + scene.px(14);
  ImGui::BeginChild("notice", {0, height}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  note_place(scene, "notice", {at.x, at.y, at.x + size.x, at.y + size.y});
  ImGui::PushTextWrapPos(width);
  ImGui::TextUnformatted(said.c_str());
  ImGui::PopTextWrapPos();
  ImGui::SameLine(size.x - scene.px(90));
  command_button(scene, "notice/dismiss", {.says = opening_ ? "Cancel" : ""});
  ImGui::EndChild();
}

bool Viewer::dismiss_notice() {
  const bool any = opening_ || !notice_.empty();
  opening_.reset();
  notice_.clear();
  return any;
}

}  // namespace memreel::viewer
