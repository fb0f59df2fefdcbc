#include <algorithm>
#include <numeric>
#include <string>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/list_panes.h"
#include "viewer/panes/stack_labels.h"

namespace memreel::viewer {

void WeighingChoice::draw(Scene& scene) {
  const bool has_range = scene.selection.marked.has_value();
  Weighing& chosen = has_range ? in_range_ : at_instant_;
  const auto choice = [&](Weighing weighing, const std::string& name) {
    if (ImGui::RadioButton(name.c_str(), chosen == weighing)) chosen = weighing;
    note_item(scene, "weigh/" + name);
    ImGui::SameLine();
  };
  const std::string where = scene.selection.listed_words();
  choice(Weighing::live_at_cursor, "live at the cursor");
  choice(Weighing::peak, "at the peak " + where);
  choice(Weighing::allocated, "allocated " + where);
  if (has_range) choice(Weighing::kept, "kept of the range");
  choice(Weighing::leaked, "leaked");
  if (!scene.doc().folded->empty()) choice(Weighing::folded, "summed up " + where);
  ImGui::NewLine();
}

WeightQuery weight_query(const Scene& scene, Weighing weighing) {
  const Selection& selection = scene.selection;
  WeightQuery query{
      .weighing = weighing, .heap = selection.heap, .version = scene.doc().event_count(), .sieve = scene.sieve};
  if (weighing == Weighing::live_at_cursor) {
    query.end_event = selection.cursor;
    query.version = 0;  // longer versions agree on it
  } else {
    const auto [first, end] = selection.listed(scene.doc());
    query.first_event = first;
    query.end_event = end;
  }
  if (weighing == Weighing::folded) {
    const TimeRange range = selection.marked.value_or(selection.view);
    query.begin = range.begin;
    query.end = range.end;
  }
  return query;
}

std::optional<WeightWork> weight_work(Scene& scene, Verdicts& verdicts, const WeightQuery& query) {
  if (query.weighing != Weighing::leaked)
    return [document = scene.document, query](const Progress& progress) {
      return weigh_stacks(*document, query, progress);
    };
  const auto findings = verdicts.ask(scene);
  if (!findings) return std::nullopt;
  return [document = scene.document, findings, query](const Progress& progress) {
    std::vector<std::uint32_t> ids;
    const std::uint32_t first = document->allocations_before(query.first_event),
                        end = document->allocations_before(query.end_event);
    for (const LeakFinding& finding : findings->leaks.findings)
      if (accuses(finding.verdict) && finding.heap == query.heap)
        for (const AllocationId id : finding.allocations)
          if (index(id) >= first && index(id) < end && (!query.sieve || query.sieve->passes(index(id))))
            ids.push_back(index(id));
    return weigh_allocations(*document, ids, progress);
  };
}

void explain_no_weights(Scene& scene, const Area& area, Weighing weighing, bool is_ready) {
  if (!is_ready && weighing == Weighing::leaked)
    return explain(scene, area, "Weighed once leaks are judged.", "The leaks pane shows the progress.");
  if (!is_ready) return explain(scene, area, "Weighing\u2026");
  switch (weighing) {
    case Weighing::live_at_cursor:
      return explain(scene, area, "Nothing is live at the cursor.", "Click the timeline where memory is in use.");
    case Weighing::leaked:
      return explain(scene, area, "Nothing allocated up to here was judged a leak.",
                     "The leaks pane says what is kept, and why it is not a leak.");
    case Weighing::kept:
      return explain(scene, area, "Nothing that was allocated in the range was live at its end.");
    case Weighing::folded:
      return explain(scene, area, "The flight recorder has no sums for this time range.",
                     "They cover the time left of the dashed line.");
    case Weighing::allocated:
    case Weighing::peak:
      break;
  }
  explain(scene, area, "Nothing is allocated in this time range.", "Zoom out with S, or press 0 for all of it.");
}

StacksPane::StacksPane()
    : table_("stacks", {{"bytes", 100, true, 0},
                        {"share", 70, true},
                        {"count", 90, true, 1},
                        {"largest", 100, true, 2},
                        {"who", 0, false}}) {
  table_.set_sort(0, true);
}

std::uint64_t StacksPane::shown_bytes() const {
  return std::accumulate(sorted_.begin(), sorted_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const StackWeight& w) { return sum + w.bytes; });
}

void StacksPane::draw(Scene& scene, Verdicts& verdicts) {
  Selection& selection = scene.selection;
  weighing_.draw(scene);
  const Weighing weighing = weighing_.of(selection);
  const WeightQuery query = weight_query(scene, weighing);
  const auto work = weight_work(scene, verdicts, query);
  if (work) weights_.request(query, *work, false);
  if (!weights_.is_current()) scene.busy = true;
  const auto weights = weights_.value();
  // The last complete weights stay on screen, but never under another quantity's name.
  const bool is_ready = work && weights && weights_.key()->weighing == weighing;
  if (!is_ready || weights->empty()) {
    const Area area = take_area("stacks");
    note_place(scene, "stacks", area);
    explain_no_weights(scene, area, weighing, is_ready);
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
  const std::uint64_t total = shown_bytes();
  ImGui::SameLine();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY());
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
        return w.largest == 0 ? "" : text_of(Bytes{w.largest});
      default:
        // Its maker is unknown; the phase may be known.
        return w.example != never ? maker_label(scene, w.example) : stack_label(scene.tables(), w.stack);
    }
  };
  rows.swatch = [&](std::uint64_t row) { return scene.theme.shade(index(scene.doc().site_of(sorted_[row].stack))); };
  rows.selected = [&](std::uint64_t row) { return selection.stack == sorted_[row].stack; };
  rows.highlighted = [&](std::uint64_t row) { return selection.highlights(scene.doc(), sorted_[row].stack); };
  rows.on_hover = [&](std::uint64_t row) { selection.hover(sorted_[row].stack); };
  rows.on_click = [&](std::uint64_t row) {
    selection.select(sorted_[row].stack);
    selection.remember();
  };
  rows.on_double_click = [&](std::uint64_t row) {
    if (sorted_[row].example != never) selection.select(scene.doc(), sorted_[row].example);
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
