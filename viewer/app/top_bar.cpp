// SPDX-License-Identifier: Apache-2.0
// The line above all panes: the open file, the search, and what is not known.
#include <imgui.h>
// after imgui.h
#include <imgui_stdlib.h>

#include <algorithm>

#include "formats/model/quantity.h"
#include "formats/model/trace.h"
#include "viewer/app/viewer.h"
#include "viewer/model/device_samples.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

/// One unknown of the trace, with its reason.
struct Unknown {
  const char* name = "";
  std::string value;
  bool matters = false;
  std::vector<std::string> because;
};

Unknown lost_events(const Document& document) {
  const Losses& losses = document.trace->losses;
  const std::uint64_t lost =
      losses.ring_full + losses.hook_refused + losses.unknown_actions + document.trace->read.missing_events;
  Unknown unknown{.name = "lost", .value = text_of(lost), .matters = lost != 0, .because = document.shortcomings()};
  if (unknown.because.empty()) unknown.because.emplace_back("Nothing is known to be missing from this trace.");
  return unknown;
}

Unknown unattributed_memory(const Scene& scene) {
  Unknown unknown{.name = "unattributed", .value = "?", .because = {}};
  if (const auto bytes = unattributed(scene.doc(), scene.selection.heap, scene.selection.cursor)) {
    unknown.value = text_of(*bytes);
    unknown.because = {"At the cursor, memory used on the device beyond what the heaps of this trace hold:",
                       "contexts, code, other processes."};
  } else if (const HeapSeries* const sampled = sampled_series(scene.doc(), scene.selection.heap)) {
    unknown.because = {scene.tables()[sampled->heap].level == Level::driver
                           ? "No sample of the device before the cursor."
                           : "Only the framework was sampled, which counts only its own memory."};
  } else {
    unknown.because = {"This trace has no samples of the device's memory, so what else is in use is not known."};
  }
  return unknown;
}

Unknown collector_cost(const Document& document) {
  Unknown unknown{.name = "collector", .value = "?", .because = {}};
  if (const auto share = recording_share(document)) {
    unknown.value = "~" + text_of_share(*share);
    unknown.because = {"Estimated share of the program's time spent on recording: events times the cost of one",
                       "(docs/measurements.md), as if all were on one thread."};
  } else {
    unknown.because = {"Recorded by another tool, whose cost is not known."};
  }
  return unknown;
}

}  // namespace

void Viewer::draw_top_bar(Scene& scene) {
  const float height = scene.px(38);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {scene.px(12), scene.px(7)});
  ImGui::BeginChild("top", {0, height}, false, ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleVar();
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {scene.px(10), 0});
  ImGui::AlignTextToFramePadding();
  if (shows_job()) {
    draw_job_bar(scene);
    ImGui::PopStyleVar();
    ImGui::EndChild();
    return end_top_bar(scene);
  }
  const std::string name = source_ ? source_->path().filename().string() : "memreel";
  constexpr float most_of_bar = 0.28F;
  const std::string shown = fitting(name, most_of_bar * ImGui::GetContentRegionAvail().x);
  ImGui::TextUnformatted(shown.c_str());
  if (shown != name && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", name.c_str());
  if (is_synthetic(document_->trace->header)) {
    ImGui::SameLine();
    ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(theme_.alarm_ink), "synthetic");
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip("Predicted from recordings, not recorded: %s", document_->trace->header.source_name.c_str());
    note_item(scene, "synthetic");
  }
  if (const Stage stage = this->status().stage; stage == Stage::importing || stage == Stage::reading) {
    ImGui::SameLine();
    command_button(scene, "cancel");
  }
  if (ranks_) draw_rank_list(scene);
  if (!document_->heaps.empty()) {
    ImGui::SameLine();
    ImGui::SetNextItemWidth(scene.px(190));
    if (ImGui::BeginCombo("##device", heap_label(scene.tables(), selection_.heap).c_str())) {
      for (const HeapSeries& series : document_->heaps) {
        const std::string label = heap_label(scene.tables(), series.heap) + "   peak " +
                                  text_of(Bytes{std::max(series.peak_live, series.peak_reserved)});
        if (menu_entry(scene, label, series.heap == selection_.heap, "device/" + std::to_string(index(series.heap)))) {
          selection_.heap = series.heap;
          selection_.clear();
        }
      }
      ImGui::EndCombo();
    }
    note_item(scene, "device");
    draw_search(scene);
  }

  draw_unknowns(scene);
  const SourceStatus status = this->status();
  ImGui::PopStyleVar();
  ImGui::EndChild();
  if (status.stage == Stage::importing || status.stage == Stage::reading) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    fill(*ImGui::GetWindowDrawList(),
         {0, at.y - scene.px(2), static_cast<float>(status.progress) * ImGui::GetIO().DisplaySize.x, at.y},
         theme_.accent);
  }
  end_top_bar(scene);
}

/// The line below it.
void Viewer::end_top_bar(Scene& scene) {
  const ImVec2 below = ImGui::GetCursorScreenPos();
  fill(*ImGui::GetWindowDrawList(), {0, below.y, ImGui::GetIO().DisplaySize.x, below.y + scene.px(1)}, theme_.ground);
  ImGui::Dummy({0, scene.px(1)});
}

/// Which job the window shows an answer about.
void Viewer::draw_job_bar(Scene& scene) {
  ImGui::TextUnformatted(fitting(job_name_, ImGui::GetContentRegionAvail().x - scene.px(160)).c_str());
  if (!source_ || document_->empty()) return;
  ImGui::SameLine();
  command_button(scene, "back to rank", {.says = "Back to " + shown_rank()});
}

std::string Viewer::shown_rank() const {
  const auto& files = ranks_->files();
  const auto at = source_ ? std::ranges::find(files, source_->path()) : files.end();
  return at == files.end() ? "another file" : ranks_->name(static_cast<std::size_t>(at - files.begin()));
}

void Viewer::draw_rank_list(Scene& scene) {
  const auto& files = ranks_->files();
  ImGui::SameLine();
  command_button(scene, "all ranks");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(scene.px(130));
  if (ImGui::BeginCombo("##rank", shown_rank().c_str())) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto series = ranks_->series(i);
      std::string label = ranks_->name(i);
      if (series && series->problem.empty()) label += "   peak " + text_of(series->peak_reserved);
      ImGui::PushID(static_cast<int>(i));
      if (menu_entry(scene, label, source_ && files[i] == source_->path(), "rank list/" + std::to_string(i)))
        choice_.show = i;
      ImGui::PopID();
    }
    ImGui::EndCombo();
  }
  note_item(scene, "rank list");
}

void Viewer::draw_search(Scene& scene) {
  ImGui::SameLine();
  // Takes the width left by the list of unknowns, which is always visible.
  const float room = ImGui::GetContentRegionMax().x - ImGui::GetCursorPosX() - scene.px(300);
  const float width = std::clamp(room, scene.px(90), scene.px(260));
  ImGui::SetNextItemWidth(width);
  if (focus_search_) {
    focus_.leave();
    ImGui::SetKeyboardFocusHere();
    focus_search_ = false;
  }
  const std::string hint = fitting("/  stacks, addresses, >1MiB", width - 2 * ImGui::GetStyle().FramePadding.x);
  if (ImGui::InputTextWithHint("##search", hint.c_str(), &selection_.search, ImGuiInputTextFlags_AutoSelectAll))
    match_step_ = 0;
  if (item_entered(scene)) {
    match_step_ = 1;
    ImGui::SetWindowFocus(nullptr);  // so that n moves to the next match
  }
  note_field(scene, "search");
  if (selection_.search.empty()) return;
  ImGui::SameLine();
  ImGui::TextDisabled("%s", panes_->allocations.matches_text().c_str());
  note_item(scene, "matches");
}

void Viewer::draw_unknowns(Scene& scene) {
  const SourceStatus status = this->status();
  std::string state;
  if (status.stage == Stage::importing || status.stage == Stage::reading)
    state = std::string(status.stage == Stage::importing ? "importing " : "reading ") +
            std::to_string(static_cast<int>(status.progress * 100)) + " %     ";
  else if (status.followed)
    state = paused_ ? "paused     " : status.still ? "cut off, or not growing     " : "following the file     ";
  state += counted(document_->event_count(), "event");
  std::vector<Unknown> unknowns{lost_events(*document_)};
  if (!document_->empty()) {
    unknowns.push_back(unattributed_memory(scene));
    unknowns.push_back(collector_cost(*document_));
  }
  const float gap = scene.px(18);
  const auto width_of = [&](const Unknown& unknown) {
    return gap + ImGui::CalcTextSize((std::string(unknown.name) + " " + unknown.value).c_str()).x;
  };
  float width = 0;
  for (const Unknown& unknown : unknowns) width += width_of(unknown);
  ImGui::SameLine();
  // Without room for all, what is of no concern is left out.
  const float room = ImGui::GetContentRegionMax().x - ImGui::GetCursorPosX();
  for (std::size_t i = unknowns.size(); i-- > 0;) {
    if (unknowns[i].matters || width <= room) continue;
    width -= width_of(unknowns[i]);
    unknowns.erase(unknowns.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const float left = ImGui::GetContentRegionMax().x - width - ImGui::CalcTextSize(state.c_str()).x;
  if (left < ImGui::GetCursorPosX()) state.clear();
  ImGui::SetCursorPosX(
      std::max(ImGui::GetContentRegionMax().x - width - ImGui::CalcTextSize(state.c_str()).x, ImGui::GetCursorPosX()));
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("%s", state.c_str());
  for (const Unknown& unknown : unknowns) {
    ImGui::SameLine(0, gap);
    ImGui::PushStyleColor(ImGuiCol_Text, unknown.matters ? theme_.held_ink : theme_.faint);
    ImGui::TextUnformatted((std::string(unknown.name) + " " + unknown.value).c_str());
    ImGui::PopStyleColor();
    note_item(scene, unknown.name);
    if (!ImGui::IsItemHovered()) continue;
    ImGui::BeginTooltip();
    for (const std::string& line : unknown.because) ImGui::TextUnformatted(line.c_str());
    ImGui::EndTooltip();
  }
}

}  // namespace memreel::viewer
