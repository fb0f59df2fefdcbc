// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/time_panes.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <thread>

#include <imgui.h>
// after imgui.h
#include <imgui_stdlib.h>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/prepare.h"
#include "formats/model/quantity.h"
#include "formats/reader/trace_reader.h"
#include "viewer/model/source.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {
namespace {

/// As a user would write it: without default parameters.
std::string name_of(const ReplayResult& result) {
  PolicySpec spec = result.policy;
  for (const PolicyInfo& info : policies())
    if (info.name == spec.name)
      for (const Parameter& parameter : info.parameters)
        std::erase_if(spec.parameters, [&](const auto& given) {
          return given.first == parameter.name && given.second == parameter.initial;
        });
  return spec.text();
}

std::uint64_t driver_calls(const ReplayResult& r) {
  return r.driver_calls.malloc + r.driver_calls.free + r.driver_calls.map + r.driver_calls.unmap;
}

}  // namespace

PoliciesPane::PoliciesPane()
    : table_("policies", {{"policy", 320, false},
                          {"peak reserved", 110, true, 0},
                          {"peak allocated", 110, true, 1},
                          {"overhead", 80, true, 2},
                          {"fragmentation", 100, true, 3},
                          {"failed", 70, true, 4},
                          {"driver calls", 100, true, 5},
                          {"", 0, false}}) {}

void PoliciesPane::request(Scene& scene) {
  if (wanted_.empty() || !scene.doc().complete) return;
  replay_.request(wanted_,
                  [trace = scene.doc().trace, specs = wanted_](const Progress& progress) -> std::optional<Outcome> {
                    const auto parsed = parse_policies(specs);
                    if (!parsed) return Outcome{.problem = parsed.error().message()};
                    progress.set(0.05);
                    const std::vector<Prepared> heaps = prepare(*trace);
                    progress.set(0.3);
                    ReplayOptions options;
                    options.series_points = 2048;
                    // As many at once as there are cores, so that it can be cancelled in between.
                    const std::size_t at_once = std::max(std::thread::hardware_concurrency(), 1U);
                    Outcome outcome;
                    for (std::size_t done = 0; done < parsed->size(); done += at_once) {
                      if (progress.cancelled()) return std::nullopt;
                      const std::size_t end = std::min(done + at_once, parsed->size());
                      auto results = replay(heaps, std::span(*parsed).subspan(done, end - done), options);
                      if (!results) return Outcome{.problem = results.error().message()};
                      std::ranges::move(*results, std::back_inserter(outcome.results));
                      progress.set(0.3 + 0.7 * static_cast<double>(end) / static_cast<double>(parsed->size()));
                    }
                    return outcome;
                  });
}

void PoliciesPane::run() {
  const std::string specs = as_policies(specs_);
  const auto parsed = parse_policies(specs);
  problem_ = parsed ? std::string() : parsed.error().message();
  if (!parsed) return;
  wanted_ = specs;
  replay_.retry();
}

void PoliciesPane::overlay(const std::string& policy) {
  // Policies are separated by commas outside braces.
  if (("," + specs_ + ",").find("," + policy + ",") == std::string::npos)
    specs_ += (specs_.empty() ? "" : ",") + policy;
  overlay_when_done_ = policy;
  run();
}

void PoliciesPane::update(Scene& scene) {
  request(scene);
  if (replay_.running()) scene.busy = true;
  if (const auto latest = replay_.value(); latest != seen_) {
    seen_ = latest;
    problem_ = latest->problem;
    if (problem_.empty()) {
      shown_ = latest;
      overlaid_.assign(shown_->results.size(), false);
      scene.overlays.clear();
    }
  }
  if (overlay_when_done_.empty() || !shown_ || !replay_.is_current()) return;
  const auto wanted = parse_policies(overlay_when_done_);
  overlay_when_done_.clear();
  if (!wanted) return;
  for (std::size_t i = 0; i < shown_->results.size(); ++i)
    if (shown_->results[i].policy == wanted->front()) overlaid_[i] = true;
  show_overlays(scene);
}

void PoliciesPane::draw(Scene& scene) {
  if (scene.doc().event_count() > longest_in_memory) {
    explain(scene, take_area("policies"), "This trace is too long to replay here.",
            "Run: memreel replay --stream TRACE");
    return;
  }
  ImGui::SetNextItemWidth(scene.px(520));
  ImGui::InputText("##policies", &specs_);
  const bool entered = item_entered(scene);
  note_field(scene, "policies/specs");
  ImGui::SameLine();
  command_button(scene, "policies/run", {.is_large = true});
  if (entered) run();
  ImGui::SameLine();
  if (replay_.running() || replay_.given_up()) {
    draw_job(scene, "policies", "Replaying", replay_);
  } else {
    ImGui::TextDisabled(
        "%s", fitting("click a row to overlay its curve on the timeline", ImGui::GetContentRegionAvail().x).c_str());
  }
  if (!problem_.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.alarm);
    ImGui::TextWrapped("%s", problem_.c_str());
    ImGui::PopStyleColor();
    note_item(scene, "policies/problem");
  }
  if (!shown_) {
    const Area area = take_area("policies");
    note_place(scene, "policies", area);
    if (problem_.empty())
      explain(scene, area, "What would another allocator have reserved for the same requests?", "Press Replay.");
    return;
  }
  std::vector<std::size_t> of_heap;
  for (std::size_t i = 0; i < shown_->results.size(); ++i)
    if (shown_->results[i].heap == scene.selection.heap) of_heap.push_back(i);
  Rows rows;
  rows.count = of_heap.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const ReplayResult& r = shown_->results[of_heap[row]];
    switch (column) {
      case 0:
        return name_of(r);
      case 1:
        return text_of(r.peak_reserved);
      case 2:
        return text_of(r.peak_allocated);
      case 3: {
        std::string times = std::to_string(r.overhead());
        return times.substr(0, times.find('.') + 3);
      }
      case 4:
        return text_of_share(r.fragmentation_at_peak);
      case 5:
        return text_of(r.failed_allocations);
      case 6:
        return text_of(driver_calls(r));
      default:
        return {};
    }
  };
  rows.swatch = [&](std::uint64_t row) -> std::optional<Colour> {
    const std::size_t i = of_heap[row];
    if (!overlaid_[i]) return scene.theme.line;
    for (std::size_t o = 0; o < scene.overlays.size(); ++o)
      if (scene.overlays[o].name == name_of(shown_->results[i])) return scene.theme.hue(o + 1);
    return scene.theme.line;
  };
  rows.selected = [&](std::uint64_t row) { return static_cast<bool>(overlaid_[of_heap[row]]); };
  rows.on_click = [&](std::uint64_t row) {
    overlaid_[of_heap[row]] = !overlaid_[of_heap[row]];
    show_overlays(scene);
  };
  rows.of = shown_;
  rows.key = [&](std::uint64_t row, int sort) {
    const ReplayResult& r = shown_->results[of_heap[row]];
    switch (sort) {
      case 0:
        return static_cast<double>(r.peak_reserved.count);
      case 1:
        return static_cast<double>(r.peak_allocated.count);
      case 2:
        return r.overhead();
      case 3:
        return r.fragmentation_at_peak;
      case 4:
        return static_cast<double>(r.failed_allocations);
      default:
        return static_cast<double>(driver_calls(r));
    }
  };
  table_.draw(scene, rows);
}

void PoliciesPane::show_overlays(Scene& scene) {
  scene.overlays.clear();
  for (std::size_t i = 0; i < shown_->results.size(); ++i) {
    if (!overlaid_[i]) continue;
    const ReplayResult& r = shown_->results[i];
    Overlay overlay{.heap = r.heap, .name = name_of(r)};
    for (const SeriesPoint& point : r.series) {
      overlay.events.push_back(static_cast<std::uint32_t>(point.first_event));
      overlay.bytes.push_back(point.reserved_max.count);
    }
    scene.overlays.push_back(std::move(overlay));
  }
}

}  // namespace memreel::viewer
