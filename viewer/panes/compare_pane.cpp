#include "viewer/panes/compare_pane.h"

#include <imgui.h>
// after imgui.h
#include <imgui_stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "analyzer/difference/difference.h"
#include "analyzer/replay/subject.h"
#include "formats/import/import.h"
#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a < b ? b - a : a - b; }

std::string change_text(std::uint64_t a, std::uint64_t b) {
  if (a == b) return "0 B";
  return (b > a ? "+" : "-") + text_of(Bytes{distance(a, b)});
}

}  // namespace

ComparePane::ComparePane()
    : table_("compare", {{"change", 110, true},
                         {"A", 100, true},
                         {"B", 100, true},
                         {"count A", 80, true},
                         {"count B", 80, true},
                         {"who", 0, false}}) {}

std::optional<ComparePane::Comparison> ComparePane::compare_instants(const Document& document, const Key& key,
                                                                     const Progress& progress) {
  Comparison comparison{.title_a = "event " + text_of(std::uint64_t{key.a}), .title_b = "the cursor"};
  std::map<StackId, Change> by_stack;
  const auto add = [&](std::uint32_t event, std::uint64_t Change::*bytes, std::uint64_t Change::*count) {
    const auto weights =
        weigh_stacks(document, {.weighing = Weighing::live_at_cursor, .heap = key.heap, .end_event = event}, progress);
    if (!weights) return false;
    for (const StackWeight& w : *weights) {
      Change& change = by_stack[w.stack];
      change.*bytes = w.bytes;
      change.*count = w.count;
    }
    return true;
  };
  if (!add(key.a, &Change::bytes_a, &Change::count_a) || !add(key.b, &Change::bytes_b, &Change::count_b))
    return std::nullopt;  // cancelled
  for (auto& [stack, change] : by_stack) {
    comparison.bytes_a += change.bytes_a;
    comparison.bytes_b += change.bytes_b;
    if (change.bytes_a == change.bytes_b && change.count_a == change.count_b) continue;
    change.stack = stack;
    change.label = stack_label(*document.tables, stack);
    comparison.changes.push_back(std::move(change));
  }
  return comparison;
}

std::optional<ComparePane::Comparison> ComparePane::compare_traces(const std::shared_ptr<ByteFile>& file,
                                                                   const Document& document, const Key& key,
                                                                   const Progress& progress) {
  const auto a = load(file, "this trace");
  progress.set(0.3);
  if (progress.cancelled()) return std::nullopt;
  auto b = open_any(key.other);
  if (b) complete_subject(*b);
  progress.set(0.7);
  if (!a || !b) return Comparison{.problem = (a ? b.error() : a.error()).message()};
  const auto heaps = difference({.trace = *a, .instant = AtPeak{}}, {.trace = *b, .instant = AtPeak{}});
  if (!heaps) return Comparison{.problem = heaps.error().message()};
  Comparison comparison{.title_a = "this one's peak", .title_b = "the peak of " + std::string(file_name(key.other))};
  static_cast<void>(document);
  for (const HeapDifference& heap : *heaps) {
    if (heap.a.heap != key.heap) continue;
    comparison.bytes_a = heap.a.live.bytes.count;
    comparison.bytes_b = heap.b.live.bytes.count;
    for (const SiteChange& site : heap.sites)
      comparison.changes.push_back(
          {.stack = site.stack_a,
           .label = site.a.count != 0 ? stack_label(a->tables, site.stack_a) : stack_label(b->tables, site.stack_b),
           .bytes_a = site.a.bytes.count,
           .bytes_b = site.b.bytes.count,
           .count_a = site.a.count,
           .count_b = site.b.count});
  }
  return comparison;
}

void ComparePane::draw(Scene& scene) {
  Selection& selection = scene.selection;
  if (ImGui::Button("keep the cursor's instant as A")) kept_ = selection.cursor;
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("or compare peaks with");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(scene.px(380));
  if (ImGui::InputTextWithHint("##other", "another trace's file", &typed_, ImGuiInputTextFlags_EnterReturnsTrue))
    other_ = typed_;
  if (!other_.empty()) {
    ImGui::SameLine();
    if (ImGui::Button("instants instead")) other_.clear();
  }
  const Key key{.other = other_,
                .heap = selection.heap,
                .a = other_.empty() ? kept_.value_or(0) : 0,
                .b = other_.empty() ? selection.cursor : 0,
                .version = other_.empty() ? 0 : scene.doc().event_count()};
  if (!other_.empty() && scene.file) {
    comparison_.request(key, [file = scene.file, document = scene.document, key](const Progress& progress) {
      return compare_traces(file, *document, key, progress);
    });
  } else if (other_.empty()) {
    comparison_.request(
        key,
        [document = scene.document, key](const Progress& progress) {
          return compare_instants(*document, key, progress);
        },
        false);
  }
  if (!comparison_.is_current()) scene.busy = true;
  const auto comparison = comparison_.value();
  const auto say = [&](std::string_view what, std::string_view remedy = {}) {
    const Area area = take_area("compare");
    note_place(scene, "compare", area);
    explain(scene, area, what, remedy);
  };
  if (!other_.empty()) draw_job(scene, "compare", "Comparing", comparison_);
  if (!comparison) return say("Who holds more, and who holds less, is said here.");
  if (!comparison->problem.empty()) return say(comparison->problem);
  if (comparison->changes.empty()) return say("Both hold the same.", "Keep an instant as A, then move the cursor.");
  ImGui::TextDisabled("A: %s, %s live     B: %s, %s live     %s", comparison->title_a.c_str(),
                      text_of(Bytes{comparison->bytes_a}).c_str(), comparison->title_b.c_str(),
                      text_of(Bytes{comparison->bytes_b}).c_str(),
                      change_text(comparison->bytes_a, comparison->bytes_b).c_str());
  std::vector<const Change*> order;
  for (const Change& change : comparison->changes) order.push_back(&change);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const Change* c) { return distance(c->bytes_a, c->bytes_b); });
  Rows rows;
  rows.count = order.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const Change& c = *order[row];
    switch (column) {
      case 0:
        return change_text(c.bytes_a, c.bytes_b);
      case 1:
        return text_of(Bytes{c.bytes_a});
      case 2:
        return text_of(Bytes{c.bytes_b});
      case 3:
        return text_of(c.count_a);
      case 4:
        return text_of(c.count_b);
      default:
        return c.label;
    }
  };
  rows.swatch = [&](std::uint64_t row) -> std::optional<Colour> {
    return order[row]->bytes_b > order[row]->bytes_a ? scene.theme.category(1) : scene.theme.category(0);
  };
  rows.selected = [&](std::uint64_t row) {
    return order[row]->stack != StackId::none && selection.stack == order[row]->stack;
  };
  rows.highlighted = [&](std::uint64_t row) { return selection.highlights(scene.doc(), order[row]->stack); };
  rows.on_hover = [&](std::uint64_t row) { selection.hover(order[row]->stack); };
  rows.on_click = [&](std::uint64_t row) {
    if (order[row]->stack != StackId::none) selection.select(order[row]->stack);
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
