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

void LeaksPane::draw(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.get(scene, "leaks");
  if (!findings) return;
  std::vector<const LeakFinding*> of_heap;
  Bytes accused{};
  for (const LeakFinding& finding : findings->leaks.findings) {
    if (finding.heap != scene.selection.heap) continue;
    of_heap.push_back(&finding);
    if (accuses(finding.verdict)) accused += finding.bytes;
  }
  std::string summary = accused > 0_B ? text_of(accused) + " leak or are suspected to" : "No leak was found";
  for (const HeapRounds& heap : findings->leaks.heaps)
    if (heap.heap == scene.selection.heap) {
      summary += "   judged over " + text_of(heap.rounds);
      if (heap.rounds_left)
        summary += "   memory runs out in " + text_of(static_cast<std::uint64_t>(std::llround(*heap.rounds_left))) +
                   " more " + heap.rounds.unit() + "s";
    }
  ImGui::PushStyleColor(ImGuiCol_Text, accused > 0_B ? scene.theme.alarm : scene.theme.faint);
  ImGui::TextUnformatted(summary.c_str());
  ImGui::PopStyleColor();
  if (of_heap.empty()) {
    const Area area = take_area("leaks");
    note_place(scene, "leaks", area);
    explain(scene, area, "Nothing was live when the trace ended.");
    return;
  }
  Rows rows;
  rows.count = of_heap.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const LeakFinding& f = *of_heap[row];
    switch (column) {
      case 0:
        return std::string(name_of(f.verdict));
      case 1:
        return text_of(f.bytes);
      case 2:
        return text_of(f.count);
      case 3:
        return accuses(f.verdict)
                   ? text_of(Bytes{static_cast<std::uint64_t>(std::max(0.0, f.growth_bytes_per_round))}) + " a round"
                   : "";
      case 4:
        return stack_label(scene.tables(), f.stack);
      default:
        return f.evidence;
    }
  };
  rows.swatch = [&](std::uint64_t row) -> std::optional<Colour> {
    return verdict_colour(scene.theme, of_heap[row]->verdict);
  };
  rows.selected = [&](std::uint64_t row) {
    return scene.selection.stack == of_heap[row]->stack && of_heap[row]->stack != StackId::none;
  };
  rows.highlighted = [&](std::uint64_t row) { return scene.selection.highlights(scene.doc(), of_heap[row]->stack); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(of_heap[row]->stack); };
  rows.on_click = [&](std::uint64_t row) {
    const LeakFinding& f = *of_heap[row];
    scene.selection.select(f.stack);
    scene.selection.cursor = scene.doc().event_count();
    if (!f.allocations.empty() && index(f.allocations.front()) < scene.doc().allocation_count())
      scene.selection.select(scene.doc(), index(f.allocations.front()));
    scene.selection.remember();
  };
  rows.of = findings;
  rows.key = [&](std::uint64_t row, int sort) {
    const LeakFinding& f = *of_heap[row];
    if (sort == 2) return accuses(f.verdict) ? std::max(0.0, f.growth_bytes_per_round) : -1;
    return static_cast<double>(sort == 1 ? f.count : f.bytes.count);
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
