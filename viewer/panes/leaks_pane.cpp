#include <cmath>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {

LeaksPane::LeaksPane()
    : table_("leaks", {{"verdict", 110, false},
                       {"bytes", 100, true, 0},
                       {"count", 80, true, 1},
                       {"grows by", 110, true, 2},
                       {"who", 220, false},
                       {"because", 0, false}}) {}

void LeaksPane::look(const Scene& scene, const std::shared_ptr<const Findings>& findings) {
  const Document& document = scene.doc();
  const HeapId heap = scene.selection.heap;
  const auto [first_event, end_event] = scene.selection.listed(document);
  const std::uint32_t first = document.allocations_before(first_event);
  const std::uint32_t end = document.allocations_before(end_event);
  if (shown_ && shown_->of == findings && shown_->heap == heap && shown_->first == first && shown_->end == end &&
      shown_->sieve == scene.sieve)
    return;
  auto view = std::make_shared<InView>(
      InView{.of = findings, .heap = heap, .first = first, .end = end, .sieve = scene.sieve, .kept = {}});
  for (const LeakFinding& finding : findings->leaks.findings) {
    if (finding.heap != heap) continue;
    if (finding.allocations.empty() && scene.sieve && !scene.sieve->passes(finding.stack)) continue;
    Kept kept{.finding = &finding};
    for (const AllocationId id : finding.allocations) {
      if (index(id) < first || index(id) >= end || (scene.sieve && !scene.sieve->passes(index(id)))) continue;
      if (kept.count++ == 0) kept.example = index(id);
      kept.bytes += document.size_of(index(id));
    }
    // What has no allocations of its own is of no range of time.
    if (finding.allocations.empty()) kept = {.finding = &finding, .bytes = finding.bytes, .count = finding.count};
    if (kept.finding->allocations.empty() || kept.count != 0) view->kept.push_back(kept);
  }
  shown_ = std::move(view);
}

void LeaksPane::draw(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.get(scene, "leaks");
  if (!findings) return;
  if (findings->leaks.unrecorded) {
    const Area area = take_area("leaks");
    note_place(scene, "leaks", area);
    return explain(scene, area, "Leaks are " + std::string(leaks_not_judged) + ".",
                   "To see what grew between two instants: K at the first, then Compare.");
  }
  look(scene, findings);
  const std::vector<Kept>& shown = shown_->kept;
  Bytes accused{};
  for (const Kept& kept : shown)
    if (accuses(kept.finding->verdict)) accused += kept.bytes;
  std::string summary = accused > 0_B ? text_of(accused) + " leaked or suspected" : "";
  for (const HeapRounds& heap : findings->leaks.heaps)
    if (heap.heap == scene.selection.heap) {
      summary += !heap.rounds.suffice()
                     ? "   leaks are " + text_of(heap.rounds)
                     : (accused > 0_B ? "   judged over " : "No leak was found   judged over ") + text_of(heap.rounds);
      if (heap.steps_left)
        summary += "   memory runs out in " + text_of(static_cast<std::uint64_t>(std::llround(*heap.steps_left))) +
                   " more " + heap.rounds.unit() + "s";
    }
  ImGui::PushStyleColor(ImGuiCol_Text, accused > 0_B ? scene.theme.alarm : scene.theme.faint);
  ImGui::TextUnformatted(summary.c_str());
  ImGui::PopStyleColor();
  if (shown.empty()) {
    const Area area = take_area("leaks");
    note_place(scene, "leaks", area);
    explain(scene, area,
            scene.sieve ? "Nothing that passes the filter was live when the trace ended."
                        : "Nothing that was allocated in this time range was live when the trace ended.",
            scene.sieve ? "Esc clears the search." : "Zoom out with S, or press 0 for all of it.");
    return;
  }
  Rows rows;
  rows.count = shown.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const LeakFinding& f = *shown[row].finding;
    switch (column) {
      case 0:
        return std::string(name_of(f.verdict));
      case 1:
        return text_of(shown[row].bytes);
      case 2:
        return text_of(shown[row].count);
      case 3:
        return accuses(f.verdict)
                   ? text_of(Bytes{static_cast<std::uint64_t>(std::max(0.0, f.growth_bytes_per_step))}) + " per step"
                   : "";
      case 4:
        return stack_label(scene.tables(), f.stack);
      default:
        return f.evidence;
    }
  };
  rows.swatch = [&](std::uint64_t row) -> std::optional<Colour> {
    return verdict_colour(scene.theme, shown[row].finding->verdict);
  };
  const auto stack = [&](std::uint64_t row) { return shown[row].finding->stack; };
  rows.selected = [&](std::uint64_t row) { return scene.selection.stack == stack(row) && stack(row) != StackId::none; };
  rows.highlighted = [&](std::uint64_t row) { return scene.selection.highlights(scene.doc(), stack(row)); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(stack(row)); };
  rows.on_click = [&](std::uint64_t row) {
    scene.selection.cursor = scene.doc().event_count();
    scene.selection.select(stack(row));  // all that it keeps
    scene.selection.remember();
  };
  rows.on_double_click = [&](std::uint64_t row) {
    if (shown[row].example) scene.selection.select(scene.doc(), *shown[row].example);
  };
  rows.of = shown_;
  rows.key = [&](std::uint64_t row, int sort) {
    const LeakFinding& f = *shown[row].finding;
    if (sort == 2) return accuses(f.verdict) ? std::max(0.0, f.growth_bytes_per_step) : -1;
    return static_cast<double>(sort == 1 ? shown[row].count : shown[row].bytes.count);
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
