// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/time_panes.h"

#include <algorithm>
#include <cmath>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "viewer/panes/scene.h"

namespace memreel::viewer {
namespace {

constexpr double chart_height = 34, between_lines = 7;

void wrapped(const std::string& sentence, Colour colour) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(printable(sentence).c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
}

/// A sentence after the word that says what it is about.
void about(Scene& scene, const char* word, const std::string& sentence) {
  if (sentence.empty()) return;
  ImGui::TextDisabled("%s", word);
  ImGui::SameLine(0, scene.px(8));
  wrapped(sentence, scene.theme.text);
}

Colour outlier_colour(const Theme& theme) { return theme.hue(1); }

/// An outline of whole pixels, inside the area.
void edge(ImDrawList& list, const Area& area, Colour colour, float thickness) {
  fill(list, {area.left, area.top, area.right, area.top + thickness}, colour);
  fill(list, {area.left, area.bottom - thickness, area.right, area.bottom}, colour);
  fill(list, {area.left, area.top, area.left + thickness, area.bottom}, colour);
  fill(list, {area.right - thickness, area.top, area.right, area.bottom}, colour);
}

std::string peak_of(const RankLine& line) {
  if (!line.judged) return "";
  return (line.at_least ? ">= " : "") + text_of(line.peak_reserved);
}

/// The maxima of `values` over equal stretches from `left` to `right`.
void draw_values(ImDrawList& list, const Area& area, float left, float right, const std::vector<Bytes>& values,
                 Bytes top, Colour colour) {
  if (values.empty() || top == 0_B) return;
  const float width = (right - left) / static_cast<float>(values.size());
  fill_columns(
      list, values.size(), [&](std::size_t x) { return left + static_cast<float>(x) * width; }, colour,
      [&](std::size_t x) {
        return std::pair{std::max(area.top, y_of(area, values[x].count, top.count)), area.bottom};
      });
}

}  // namespace

RankChoice RanksPane::draw(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown) {
  choice_ = {};
  const auto overview = ranks.overview();
  ImGui::TextDisabled("click or Enter: show the rank; right click: compare with it");
  ImGui::BeginChild("ranks of the job");
  if (!overview || !overview->problem.empty()) {
    if (overview) {
      wrapped("No answer about the job: " + overview->problem, scene.theme.alarm_ink);
      note_item(scene, "job/problem");
    }
    draw_progress(scene, ranks, shown);
  }
  if (overview)
    for (const JobOverview& job : overview->jobs) draw_job(scene, ranks, job, shown);
  ImGui::EndChild();
  return std::exchange(choice_, {});
}

/// What is known of each file before there is an answer about all.
void RanksPane::draw_progress(Scene& scene, const Ranks& ranks, const std::filesystem::path& shown) {
  if (!ranks.complete())
    wrapped("Reading the job: " + text_of(std::uint64_t{ranks.read()}) + " of " +
                text_of(std::uint64_t{ranks.files().size()}) + " recordings",
            scene.theme.text);
  const Chart chart{.ranks = &ranks, .shown = &shown, .top = ranks.highest()};
  for (std::size_t i = 0; i < ranks.files().size(); ++i) {
    const auto series = ranks.series(i);
    RankLine line{.file = i, .alike = {}, .name = ranks.name(i), .note = series ? series->problem : "not read yet"};
    line.judged = series && series->problem.empty();
    if (series) line.peak_reserved = series->peak_reserved;
    draw_line(scene, chart, line);
  }
}

void RanksPane::draw_job(Scene& scene, const Ranks& ranks, const JobOverview& job, const std::filesystem::path& shown) {
  wrapped(job.headline, job.failed ? scene.theme.alarm_ink : scene.theme.text);
  about(scene, "decides", job.decides);
  about(scene, "fails", job.fails);
  Chart chart{.ranks = &ranks,
              .shown = &shown,
              .top = job.highest,
              .one_clock = job.one_clock,
              .begin = job.begin,
              .end = job.end};
  // A limit far above the peaks would leave them no height.
  for (const RankLine& line : job.lines)
    if (line.capacity && line.capacity->count <= job.highest.count / 3 * 4)
      chart.top = std::max(chart.top, *line.capacity);
  draw_clock(scene, job, chart);
  const ImVec2 from = ImGui::GetCursorScreenPos();
  for (const RankLine& line : job.lines) {
    draw_line(scene, chart, line);
    if (unfolded_.contains(line.file)) draw_others(scene, chart, line);
  }
  const ImVec2 to = ImGui::GetCursorScreenPos(), mouse = ImGui::GetMousePos();
  const Area lanes{from.x, from.y, from.x + ImGui::GetContentRegionAvail().x, to.y};
  if (job.one_clock && ImGui::IsWindowHovered() && lanes.contains(mouse))
    fill(*ImGui::GetWindowDrawList(), {mouse.x, lanes.top, mouse.x + 1, lanes.bottom}, scene.theme.faint);
  ImGui::Dummy({0, scene.px(12)});
}

void RanksPane::draw_clock(Scene& scene, const JobOverview& job, const Chart& chart) {
  if (job.clock.empty()) return;
  wrapped(job.clock, scene.theme.faint);
  if (!chart.one_clock) return;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const Area area{at.x, at.y, at.x + ImGui::GetContentRegionAvail().x, at.y + ImGui::GetTextLineHeight()};
  const TimeAxis axis({chart.begin, chart.end}, area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (const TimeAxis::Tick& tick : axis.labelled_ticks(chart.begin, scene.px(120))) {
    fill(list, {tick.x, area.top, tick.x + 1, area.bottom}, scene.theme.line);
    tick_label(scene, list, {tick.x, area.top}, area.right, tick.label);
  }
  ImGui::Dummy({0, area.height()});
}

void RanksPane::draw_line(Scene& scene, const Chart& chart, const RankLine& line) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float text_height = ImGui::GetTextLineHeight() + scene.px(2);
  const float width = std::max(ImGui::GetContentRegionAvail().x, 1.0F);
  const float height = text_height + (line.judged ? scene.px(chart_height) : 0);
  const std::string place = "rank/" + std::to_string(line.file);
  ImGui::PushID(static_cast<int>(line.file));
  float room = width;
  if (!line.alike.empty()) {
    const bool is_open = unfolded_.contains(line.file);
    const std::string toggle = "alike/" + std::to_string(line.file);
    const std::string label = is_open ? "fold" : "list all " + text_of(std::uint64_t{line.count()});
    room -= button_width(scene, toggle, label);
    ImGui::SetCursorScreenPos({at.x + room, at.y});
    if (push_button(scene, toggle, {.says = label}))
      is_open ? unfolded_.erase(line.file) : unfolded_.insert(line.file).second;
    ImGui::SetCursorScreenPos(at);
  }
  ImGui::InvisibleButton("rank", {width, height + scene.px(between_lines)},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
  ImGui::PopID();
  const Area area{at.x, at.y, at.x + width, at.y + height};
  note_place(scene, place, area);
  scene.focus.add(place, FocusKind::drawn, area.min(), area.max());
  const bool is_shown = chart.ranks->files()[line.file] == *chart.shown;
  if (scene.focus.takes(place) || ImGui::IsItemClicked(ImGuiMouseButton_Left)) choice_.show = line.file;
  const bool compares = scene.focus.takes(place, FocusKey::open) || scene.focus.takes(place, FocusKey::menu) ||
                        ImGui::IsItemClicked(ImGuiMouseButton_Right);
  if (compares && !is_shown) choice_.compare = line.file;
  if (!ImGui::IsItemVisible()) return;
  const bool is_hovered = ImGui::IsItemHovered();
  draw_text(scene, area, line, is_shown || is_hovered, room - scene.px(8));
  if (line.judged)
    draw_lane(scene, {area.left, area.top + text_height, area.right, area.bottom}, chart, line, is_shown, is_hovered);
  if (is_hovered) tell(scene, area, chart, line);
}

/// The ranks that are alike, in the same way.
void RanksPane::draw_others(Scene& scene, const Chart& chart, const RankLine& line) {
  const float indent = scene.px(16);
  ImGui::Indent(indent);
  for (const RankLine& other : line.alike) draw_line(scene, chart, other);
  ImGui::Unindent(indent);
}

void RanksPane::draw_text(Scene& scene, const Area& area, const RankLine& line, bool is_lit, float room) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Theme& theme = scene.theme;
  const std::string peak = peak_of(line);
  text(list, {area.left + room, area.top}, theme.text, peak, 1);
  room -= ImGui::CalcTextSize(peak.c_str()).x + scene.px(12);
  float x = 0;
  const auto add = [&](const std::string& words, Colour colour) {
    if (words.empty() || room - x < scene.px(20)) return;
    const std::string fits = fitting(printable(words), room - x);
    text(list, {area.left + x, area.top}, colour, fits);
    x += ImGui::CalcTextSize(fits.c_str()).x + scene.px(10);
  };
  add(line.name, is_lit ? theme.text : mix(theme.faint, theme.text, 0.5));
  add(line.decides ? "decides" : "", theme.text);
  add(line.failed ? "ran out of memory" : "", theme.alarm_ink);
  add(line.outlier ? "outlier" : "", theme.text);
  add(line.near ? "near its limit" : "", theme.text);
  add(line.at_least ? "at least" : "", theme.text);
  add(line.note, theme.faint);
}

void RanksPane::draw_lane(Scene& scene, const Area& area, const Chart& chart, const RankLine& line, bool is_shown,
                          bool is_hovered) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Theme& theme = scene.theme;
  fill(list, area, theme.ground);
  const TimeAxis axis({chart.begin, chart.end}, area);
  const auto series = chart.ranks->series(line.file);
  if (series) {
    const float left = chart.one_clock ? axis.x_of(line.begin) : area.left;
    const float right = chart.one_clock ? std::max(axis.x_of(line.end), left + 1) : area.right;
    draw_values(list, area, left, right, series->reserved, chart.top, theme.reserved);
    draw_values(list, area, left, right, series->allocated, chart.top, theme.live);
    if (line.failed_at && line.end > line.begin) {
      const auto share = static_cast<double>((*line.failed_at - line.begin).count()) /
                         static_cast<double>((line.end - line.begin).count());
      const float x = left + static_cast<float>(std::clamp(share, 0.0, 1.0)) * (right - left);
      const float mark = scene.px(2);
      fill(list, {x - mark / 2, area.top, x + mark / 2, area.bottom}, theme.alarm);
      list.AddTriangleFilled({x, area.top + 5 * mark}, {x - 3 * mark, area.top}, {x + 3 * mark, area.top}, theme.alarm);
      note_place(scene, "rank/" + std::to_string(line.file) + "/failure",
                 {x - 3 * mark, area.top, x + 3 * mark, area.bottom});
    }
  }
  if (line.capacity && *line.capacity <= chart.top) {
    const float y = y_of(area, line.capacity->count, chart.top.count);
    fill(list, {area.left, y, area.right, y + 1}, theme.faint);
  }
  if (is_shown || is_hovered) outline(list, area, is_shown ? theme.accent : theme.faint, scene.px(1));
  if (line.outlier) edge(list, area, outlier_colour(theme), std::round(scene.px(2)));
  if (line.decides) fill(list, {area.left, area.top, area.left + scene.px(4), area.bottom}, theme.accent);
}

void RanksPane::tell(Scene& scene, const Area& area, const Chart& chart, const RankLine& line) const {
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(scene.px(520));
  ImGui::TextUnformatted(printable(chart.ranks->files()[line.file].string()).c_str());
  if (!line.note.empty()) ImGui::TextUnformatted(printable(line.note).c_str());
  const auto series = chart.ranks->series(line.file);
  if (line.judged && series) {
    ImGui::TextDisabled("peak: %s reserved, %s live", peak_of(line).c_str(), text_of(series->peak_live).c_str());
    const double across = (ImGui::GetMousePos().x - area.left) / std::max(area.width(), 1.0F);
    double share = across;
    if (chart.one_clock && line.end > line.begin) {
      const double time =
          static_cast<double>(chart.begin.count()) + across * static_cast<double>((chart.end - chart.begin).count());
      share = (time - static_cast<double>(line.begin.count())) / static_cast<double>((line.end - line.begin).count());
    }
    const std::size_t columns = std::min(series->reserved.size(), series->allocated.size());
    if (share >= 0 && share < 1 && columns > 0) {
      const auto column = static_cast<std::size_t>(share * static_cast<double>(columns));
      ImGui::TextDisabled("here: %s reserved, %s allocated", text_of(series->reserved[column]).c_str(),
                          text_of(series->allocated[column]).c_str());
    }
  }
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

}  // namespace memreel::viewer
