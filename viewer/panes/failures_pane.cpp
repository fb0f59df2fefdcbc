#include <algorithm>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {
namespace {

void explain_none(Scene& scene) {
  const Area area = take_area("oom");
  note_place(scene, "oom", area);
  if (scene.doc().columns.failure.empty()) return explain(scene, area, "No request failed in this trace.");
  explain(scene, area, "No request failed in this time range.", "Zoom out with S, or press 0 for all of it.");
}

}  // namespace

FailuresPane::FailuresPane()
    : table_("oom", {{"requested", 100, true, 0},
                     {"at", 100, true, 1},
                     {"live then", 100, true, 2},
                     {"reserved then", 110, true, 3},
                     {"largest free", 100, true, 4},
                     {"verdict", 130, false},
                     {"survives with", 260, false},
                     {"who", 0, false}}) {}

void FailuresPane::look(const Scene& scene) {
  const Document& document = scene.doc();
  const auto [first, end] = scene.selection.listed(document);
  if (shown_.first == first && shown_.end == end && shown_.sieve == scene.sieve) return;
  shown_ = {.first = first, .end = end, .sieve = scene.sieve, .rows = {}};
  const ColumnView<std::uint32_t>& failures = document.columns.failure;
  for (std::uint32_t row = document.rows_before(failures, first); row < failures.size(); ++row) {
    const OtherEvent& failure = document.columns.other[failures[row]];
    if (failure.at >= end) break;
    if (!scene.sieve || scene.sieve->passes(failure.event.stack, failure.event.size)) shown_.rows.push_back(row);
  }
}

void FailuresPane::draw(Scene& scene, Verdicts& verdicts) {
  const Document& document = scene.doc();
  look(scene);
  const std::size_t count = shown_.rows.size();
  if (count == 0) return explain_none(scene);
  const auto failure = [&](std::uint64_t row) -> const OtherEvent& {
    return document.columns.other[document.columns.failure[shown_.rows[row]]];
  };
  const auto metrics = [&](const OtherEvent& f) {
    const HeapSeries* const series = document.series(document.heap_of(f.event.origin));
    return series != nullptr ? document.metrics_after(*series, f.at) : Metrics{};
  };
  const auto findings = verdicts.get(scene, "oom");
  if (!findings) return;
  const auto judged = [&](std::uint64_t row) -> const OutOfMemory* { return findings->ooms.of_event(failure(row).at); };
  std::string sentence = "Click a failure to go to its moment and to see why it failed.";
  if (const auto& answer = findings->ooms.answer)
    sentence = findings->remedies.tried[answer->remedy].text + " serves " + text_of(answer->served) + " of the " +
               text_of(findings->ooms.fragmented) + " that failed because of fragmentation. " + sentence;
  for (std::uint64_t row = 0; row < count; ++row)
    if (failure(row).at + 1 == scene.selection.cursor)
      if (const OutOfMemory* const oom = judged(row)) sentence = explanation(*oom);
  ImGui::TextWrapped("%s", sentence.c_str());
  Rows rows;
  rows.count = count;
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const OtherEvent& f = failure(row);
    const OutOfMemory* const oom = judged(row);
    switch (column) {
      case 0:
        return text_of(f.event.size);
      case 1:
        return time_text(document.time(f.at) - document.first_time(), Nanoseconds{100'000});
      case 2:
        return text_of(Bytes{value_of(metrics(f), Metric::live)});
      case 3:
        return text_of(Bytes{value_of(metrics(f), Metric::reserved)});
      case 4:
        return oom != nullptr ? text_of(oom->largest_free) : "";
      case 5:
        return oom != nullptr ? std::string(name_of(oom->verdict)) : "not examined";
      case 6:
        return oom != nullptr ? survivor_text(findings->remedies, *oom) : "";
      default:
        return stack_label(scene.tables(), f.event.stack);
    }
  };
  rows.swatch = [&](std::uint64_t) { return scene.theme.alarm; };
  rows.selected = [&](std::uint64_t row) { return scene.selection.cursor == failure(row).at + 1; };
  rows.highlighted = [&](std::uint64_t row) { return scene.selection.highlights(document, failure(row).event.stack); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(failure(row).event.stack); };
  rows.on_click = [&](std::uint64_t row) {
    const OtherEvent& f = failure(row);
    scene.selection.heap = document.heap_of(f.event.origin);
    scene.selection.cursor = f.at + 1;  // it changed nothing; its instant is its flag's
    scene.selection.select(f.event.stack);
    scene.selection.remember();
  };
  rows.of = findings;
  rows.key = [&](std::uint64_t row, int sort) {
    const OtherEvent& f = failure(row);
    switch (sort) {
      case 0:
        return static_cast<double>(f.event.size.count);
      case 1:
        return static_cast<double>(f.at);
      case 2:
        return static_cast<double>(value_of(metrics(f), Metric::live));
      case 3:
        return static_cast<double>(value_of(metrics(f), Metric::reserved));
      default:
        break;
    }
    const OutOfMemory* const oom = judged(row);
    return oom != nullptr ? static_cast<double>(oom->largest_free.count) : -1;
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
