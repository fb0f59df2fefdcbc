#include <algorithm>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/list_panes.h"

namespace memreel::viewer {

WeightQuery weight_query(const Scene& scene, Weighing weighing) {
  const Selection& selection = scene.selection;
  WeightQuery query{.weighing = weighing, .heap = selection.heap, .version = scene.doc().event_count()};
  if (weighing == Weighing::live_at_cursor) {
    query.end_event = selection.cursor;
    query.version = 0;  // longer versions say the same of it
  } else {
    query.first_event = selection.first_event(scene.doc());
    query.end_event = selection.end_event(scene.doc());
  }
  return query;
}

StacksPane::StacksPane()
    : table_("stacks", {{"bytes", 100, true, 0},
                        {"share", 70, true},
                        {"count", 90, true, 1},
                        {"largest", 100, true, 2},
                        {"who", 0, false}}) {
  table_.set_sort(0, true);
}

void StacksPane::draw(Scene& scene) {
  Selection& selection = scene.selection;
  if (ImGui::RadioButton("live at the cursor", weighing_ == Weighing::live_at_cursor))
    weighing_ = Weighing::live_at_cursor;
  ImGui::SameLine();
  if (ImGui::RadioButton("allocated in view", weighing_ == Weighing::allocated)) weighing_ = Weighing::allocated;

  const WeightQuery query = weight_query(scene, weighing_);
  weights_.request(
      query,
      [document = scene.document, query](const Progress& progress) { return weigh_stacks(*document, query, progress); },
      false);
  if (!weights_.is_current()) scene.busy = true;
  const auto weights = weights_.value();
  if (!weights || weights->empty()) {
    const Area area = take_area("stacks");
    note_place(scene, "stacks", area);
    explain(scene, area, weights ? "Nothing is live at the cursor." : "Weighing\u2026",
            weights ? "Click the timeline where memory is in use." : "");
    return;
  }
  if (weights != sorted_from_ || sorted_by_ != table_.sort() || sorted_descending_ != table_.descending()) {
    sorted_ = *weights;
    sorted_from_ = weights;
    sorted_by_ = table_.sort();
    sorted_descending_ = table_.descending();
    const auto key = [&](const StackWeight& w) {
      return sorted_by_ == 1 ? w.count : sorted_by_ == 2 ? w.largest : w.bytes;
    };
    std::ranges::stable_sort(sorted_, [&](const StackWeight& a, const StackWeight& b) {
      return sorted_descending_ ? key(a) > key(b) : key(a) < key(b);
    });
  }
  std::uint64_t total = 0;
  for (const StackWeight& w : sorted_) total += w.bytes;
  ImGui::SameLine();
  ImGui::TextDisabled("   %s in %s stacks", text_of(Bytes{total}).c_str(),
                      text_of(std::uint64_t{sorted_.size()}).c_str());

  Rows rows;
  rows.count = sorted_.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const StackWeight& w = sorted_[row];
    switch (column) {
      case 0:
        return text_of(Bytes{w.bytes});
      case 1:
        return text_of_share(static_cast<double>(w.bytes) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
      case 2:
        return text_of(w.count);
      case 3:
        return text_of(Bytes{w.largest});
      default:
        return stack_label(scene.tables(), w.stack);
    }
  };
  rows.swatch = [&](std::uint64_t row) { return scene.theme.shade(index(sorted_[row].stack)); };
  rows.selected = [&](std::uint64_t row) { return selection.stack == sorted_[row].stack; };
  rows.highlighted = [&](std::uint64_t row) {
    return selection.hovered_allocation && scene.doc().stack_of(*selection.hovered_allocation) == sorted_[row].stack;
  };
  rows.on_hover = [&](std::uint64_t row) { selection.hover(sorted_[row].stack); };
  rows.on_click = [&](std::uint64_t row) {
    selection.select(sorted_[row].stack);
    selection.remember();
  };
  rows.on_double_click = [&](std::uint64_t row) { selection.select(scene.doc(), sorted_[row].example); };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
