// SPDX-License-Identifier: Apache-2.0
// The viewer's state, for tests and scripts.
#include <imgui.h>

#include <array>
#include <nlohmann/json.hpp>

#include "viewer/app/viewer.h"
#include "viewer/model/device_samples.h"
#include "viewer/model/labels.h"
#include "viewer/model/stacked_series.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

using Json = nlohmann::json;

std::string clipboard() {
  const char* const text = ImGui::GetClipboardText();
  return text == nullptr ? std::string() : text;
}

Json compared(ComparePane& pane) {
  if (!pane.shown()) return nullptr;
  const auto facts = [](const SideFacts& side) {
    return Json{{"reserved_bytes", side.reserved.count},
                {"live_bytes", side.live.count},
                {"fragmentation", side.fragmentation},
                {"failures", side.failures},
                {"driver_calls", side.driver_calls}};
  };
  const auto comparison = pane.comparison();
  return {{"facts", {facts(comparison->facts_a), facts(comparison->facts_b)}},
          {"listed_bytes", {comparison->listed_a.count, comparison->listed_b.count}},
          {"a", pane.shown()->a.event},
          {"b", pane.shown()->b.event},
          {"by", pane.aligned_by() == AlignBy::step ? "step" : "time"}};
}

/// `known`: null if nothing is known.
Json described(const Document& document, const Classification* known, std::uint32_t allocation) {
  const Allocation a = document.allocation(allocation);
  Json json{{"bytes", a.size.count},
            {"address", a.address.value},
            {"begin", a.begin},
            {"label", stack_label(*document.tables, a.stack)}};
  if (known == nullptr) return json;
  json["category"] = name_of(known->category(allocation));
  json["evidence"] = row_of(known->evidence(allocation)).name;
  json["phase"] = name_of(known->phase(allocation));
  json["layer"] = known->layer(*document.tables, a.stack, known->call(allocation));
  return json;
}

Json described(const RankLine& line) {
  Json json{{"file", line.file},         {"name", line.name},
            {"note", line.note},         {"peak_reserved_bytes", line.peak_reserved.count},
            {"at_least", line.at_least}, {"judged", line.judged},
            {"marks", Json::array()},    {"alike", Json::array()}};
  const auto mark = [&](bool is_marked, const char* name) {
    if (is_marked) json["marks"].push_back(name);
  };
  mark(line.decides, "decides");
  mark(line.failed, "failed");
  mark(line.near, "near");
  mark(line.outlier, "outlier");
  for (const RankLine& other : line.alike) json["alike"].push_back(other.file);
  return json;
}

Json described(const JobOverview& job) {
  Json json{{"headline", job.headline}, {"decides", job.decides},     {"fails", job.fails},
            {"clock", job.clock},       {"one_clock", job.one_clock}, {"lines", Json::array()}};
  for (const RankLine& line : job.lines) json["lines"].push_back(described(line));
  return json;
}

/// `strip`: null until it is ready.
Json described(const VerdictStrip* strip) {
  if (strip == nullptr) return nullptr;
  const auto texts = [](const std::vector<VerdictItem>& items) {
    Json json = Json::array();
    for (const VerdictItem& item : items) json.push_back((item.topic.empty() ? "" : item.topic + " ") + item.text);
    return json;
  };
  return {
      {"decides", name_of(strip->decides)}, {"headline", strip->headline.text},
      {"held_bytes", strip->held.count},    {"holders", texts(strip->holders)},
      {"others", texts(strip->others)},     {"setting", strip->offer ? Json(strip->offer->item.text) : Json(nullptr)}};
}

/// `space`: null if none is shown.
Json described(const Space* space) {
  if (space == nullptr) return nullptr;
  const auto event = [](std::uint32_t until) { return until == never ? Json(nullptr) : Json(until); };
  Json json{{"address", space->segment.address.value},
            {"bytes", space->segment.size.count},
            {"since", space->segment.begin},
            {"unreleasable_bytes", space->unreleasable.count},
            {"empty_from", event(space->empty_from)},
            {"hole", nullptr},
            {"blocks", Json::array()},
            {"places", Json::array()}};
  if (space->hole)
    json["hole"] = {
        {"address", space->hole->address.value},
        {"bytes", space->hole->size.count},
        {"largest_request", space->hole->largest_request ? Json(space->hole->largest_request->count) : Json(nullptr)}};
  for (const SpaceBlock& block : space->blocks)
    json["blocks"].push_back(
        {{"allocation", block.block.allocation}, {"bytes", block.block.size.count}, {"until", event(block.until)}});
  for (const SpacePlace& place : space->places)
    json["places"].push_back({{"site", place.site.label},
                              {"blocks", place.site.blocks},
                              {"bytes", place.site.bytes.count},
                              {"until", event(place.until)}});
  return json;
}

Json described(const Tables& tables, const FlamePane& pane) {
  Json json = Json::array();
  const std::span<const FlameNode> flame = pane.first_nodes();
  for (std::size_t n = 1; n < flame.size(); ++n)
    json.push_back({{"name", pane.name_of(tables, flame[n])},
                    {"depth", flame[n].depth},
                    {"bytes", flame[n].bytes},
                    {"category", flame[n].category ? Json(name_of(*flame[n].category)) : Json(nullptr)}});
  return json;
}

}  // namespace

Json Viewer::state() {
  static constexpr std::array<const char*, 4> stages{"importing", "reading", "complete", "failed"};
  const SourceStatus status = this->status();
  Json places = Json::object();
  for (const auto& [name, place] : places_) places[name] = {place.x, place.y, place.z, place.w};
  const auto range = [](const TimeRange& r) { return Json{r.begin.count(), r.end.count()}; };
  Json state{
      {"stage", stages.at(static_cast<std::size_t>(status.stage))},
      {"error", status.error ? Json(status.error->message()) : Json(nullptr)},
      {"followed", status.followed},
      {"still", status.still},
      {"idle", is_idle()},
      {"frames", frames_},
      {"keys", window_.key_count()},
      {"pictures", window_.picture_count()},
      {"mouse", window_.mouse_count()},
      {"pointer", {ImGui::GetIO().MousePos.x, ImGui::GetIO().MousePos.y}},
      {"events", document_->event_count()},
      {"allocations", document_->allocation_count()},
      {"heap", index(selection_.heap)},
      {"axis", axis_words.at(static_cast<std::size_t>(selection_.axis.by()))},
      {"bands", Json::array()},
      {"view", range(selection_.view)},
      {"view_remembered", selection_.view == settled_view_},
      {"span", {document_->first_time().count(), document_->last_time().count()}},
      {"cursor", selection_.cursor},
      {"kept", selection_.kept ? Json(*selection_.kept) : Json(nullptr)},
      {"marked", selection_.marked ? range(*selection_.marked) : Json(nullptr)},
      {"allocation", selection_.allocation ? Json(*selection_.allocation) : Json(nullptr)},
      {"stack", selection_.stack ? Json(index(*selection_.stack)) : Json(nullptr)},
      {"hovered_allocation", selection_.hovered_allocation ? Json(*selection_.hovered_allocation) : Json(nullptr)},
      {"own_line",
       selection_.stack ? Json(own_line(stack_lines(*document_->tables, *selection_.stack))) : Json(nullptr)},
      {"category", selection_.category ? Json(name_of(*selection_.category)) : Json(nullptr)},
      {"categories", nullptr},
      {"split", split_words.at(static_cast<std::size_t>(selection_.split_by(knows_categories())))},
      {"colour", colour_words.at(static_cast<std::size_t>(selection_.colour_by(knows_categories())))},
      {"search", selection_.search},
      {"matches", panes_->allocations.matches()},
      {"listed", panes_->allocations.listed()},
      {"weighed_bytes", panes_->stacks.shown_bytes()},
      {"heap_event", heap_.event},
      {"heap_order", heap_order_words.at(static_cast<std::size_t>(settings_.heap_order))},
      {"space", described(panes_->inspector.space())},
      {"selected_address", selection_.space ? Json(selection_.space->value) : Json(nullptr)},
      {"pools_listed", panes_->pools.listed()},
      {"holders_listed", panes_->holders.listed()},
      {"devices_listed", panes_->devices.listed()},
      {"tags_listed", panes_->tags.listed()},
      {"failures_listed", panes_->failures.listed()},
      {"heaps_shown", panes_->heaps.shown()},
      {"segments_event", panes_->segments.shown_event()},
      {"clipboard", clipboard()},
      {"leaks", panes_->verdicts.leaks()},
      {"welcome", document_->empty() ? Json(welcome_to(source_.get(), *document_).what) : Json(nullptr)},
      {"compared", compared(panes_->compare)},
      {"ranks", Json::array()},
      {"prediction", nullptr},
      {"other", panes_->compare.other()},
      {"file", source_ ? Json(source_->path().string()) : Json(nullptr)},
      {"tour", tour_.stop()},
      {"tab", layout_.tab()},
      {"maximised", layout_.maximised()},
      {"panes_as_tabs", layout_.folded()},
      {"text_size", settings_.text_size},
      {"scale", window_.scale()},
      {"opening", open_dialog_.is_open()},
      {"notice", notice_.empty() ? Json(nullptr) : Json(notice_)},
      {"recent", settings_.recent},
      {"help", commands_.help_is_open()},
      {"palette", commands_.palette_is_open()},
      {"refusal", commands_.refusal()},
      {"focus", focus_.at().empty() ? Json(nullptr) : Json(focus_.at())},
      {"row", focus_.row() ? Json(*focus_.row()) : Json(nullptr)},
      {"stops", Json::array()},
      {"buttons", Json::array()},
      {"typing", is_typing()},
      {"verdict_shown", settings_.verdict},
      {"shares", {settings_.timeline_share, settings_.map_share, settings_.inspector_share, settings_.bottom_share}},
      {"dark", settings_.dark},
      {"overlays", Json::array()},
      {"live_bytes", heap_.live.count},
      {"reserved_bytes", heap_.reserved.count},
      {"rounding_bytes", heap_.rounding ? Json(heap_.rounding->count) : Json(nullptr)},
      {"places", places}};
  for (std::size_t i = 0; ranks_ && i < ranks_->files().size(); ++i) {
    const auto series = ranks_->series(i);
    state["ranks"].push_back({{"name", ranks_->name(i)},
                              {"file", ranks_->files()[i].string()},
                              {"peak_reserved_bytes", series ? Json(series->peak_reserved.count) : Json(nullptr)},
                              {"problem", series ? Json(series->problem) : Json(nullptr)}});
  }
  if (const auto overview = ranks_ ? ranks_->overview() : nullptr) {
    state["job"] = {{"shown", shows_job()}, {"problem", overview->problem}, {"jobs", Json::array()}};
    for (const JobOverview& job : overview->jobs) state["job"]["jobs"].push_back(described(job));
  }
  if (const auto view = prediction_ ? prediction_->result() : nullptr) {
    state["prediction"] = {{"problem", view->problem}, {"predicted", Json::array()}};
    for (const GrowthChart::Predicted& p : view->chart.predicted)
      if (p.asked)
        state["prediction"]["predicted"].push_back(
            {{"value", p.at}, {"peak_live_bytes", p.live.count}, {"peak_reserved_bytes", p.reserved.count}});
  }
  state["verdict"] = described(panes_->verdict.shown());
  for (const MarkBand& band : panes_->timeline.shown_bands())
    state["bands"].push_back({{"name", (*document_->tables)[band.name]},
                              {"count", band.count},
                              {"depth", band.depth},
                              {"title", title_of(*document_->tables, band)}});
  state["folded"] = {{"events", document_->trace->losses.folded_events},
                     {"until", document_->trace->losses.folded_until.count()},
                     {"told", panes_->timeline.folded_is_told()},
                     {"course", Json::array()}};
  for (const FoldedPoint& point : folded_series(*document_, selection_.heap))
    state["folded"]["course"].push_back({point.time.count(), point.live.count});
  const auto unknown = unattributed(*document_, selection_.heap, selection_.cursor);
  state["unattributed"] = unknown ? Json(unknown->count) : Json(nullptr);
  const HeapSeries* const sampled = sampled_series(*document_, selection_.heap);
  const auto sample = sampled == nullptr ? std::nullopt : sample_before(*document_, *sampled, selection_.cursor);
  state["device_free"] = sample ? Json(sample->free.count) : Json(nullptr);
  state["told_emptied"] = panes_->timeline.emptied_told();
  state["told_band"] = panes_->timeline.told_band();
  state["groups"] = Json::array();
  if (const StackedSeries* const groups = panes_->timeline.shown_groups())
    for (const StackedSeries::Group& group : groups->groups) state["groups"].push_back({{"label", group.label}});
  state["flame"] = described(*document_->tables, panes_->flame);
  for (const Focusable& stop : focus_.stops()) state["stops"].push_back(stop.name);
  for (const DrawnButton& control : commands_.drawn())
    state["buttons"].push_back({{"place", control.place},
                                {"label", control.label},
                                {"is_command", control.is_command},
                                {"can_be_pressed", control.can_be_pressed}});
  for (const Overlay& overlay : overlays_) state["overlays"].push_back(overlay.name);
  state["overlay_values"] = Json::array();
  for (const std::string& value : panes_->timeline.overlay_values()) state["overlay_values"].push_back(value);
  state["stacks_summary"] = panes_->stacks.summary();
  if (selection_.allocation && *selection_.allocation < document_->allocation_count())
    state["selected"] = described(*document_, live_known_.get(), *selection_.allocation);
  if (knows_categories()) {
    state["categories"] = Json::object();
    for (std::size_t c = 0; c < live_.size(); ++c)
      if (live_.at(c).count != 0) state["categories"][name_of(static_cast<Category>(c))] = live_.at(c).bytes.count;
  }
  return state;
}

Json Viewer::commands() {
  Json list = Json::array();
  for (const Command* const command : commands_.all())
    list.push_back({{"name", command->name},
                    {"keys", command->shortcut},
                    {"place", command->place},
                    {"why_not", commands_.why_not(*command)}});
  return {{"commands", list}};
}

}  // namespace memreel::viewer
