// Who holds more and who holds less: by stack, by category, by layer.
#include <array>
#include <cstdlib>

#include "formats/model/quantity.h"
#include "viewer/panes/compare_pane.h"

namespace memreel::viewer {
namespace {

std::string change_text(std::int64_t change) {
  if (change == 0) return "0 B";
  return (change > 0 ? "+" : "-") + text_of(Bytes{static_cast<std::uint64_t>(std::llabs(change))});
}

std::int64_t change_of(Bytes a, Bytes b) { return static_cast<std::int64_t>(b.count - a.count); }

/// "forward (modeling_gpt2.py:240) +1.20 GiB"
std::string most_of(const CategoryChange& c) {
  return c.place.empty() ? "" : c.place + " " + change_text(change_of(c.place_a, c.place_b));
}

/// A row for each change of a category: the change, both sides, the category, and the text from `last_of`. `changes` is
/// part of `comparison`.
template <class Change, class LastOf>
Rows rows_of(Scene& scene, const std::shared_ptr<const Comparison>& comparison, const std::vector<Change>& changes,
             LastOf last_of) {
  Rows rows;
  rows.count = changes.size();
  rows.cell = [&changes, last_of](std::uint64_t row, int column) -> std::string {
    const Change& c = changes[row];
    switch (column) {
      case 0:
        return change_text(change_of(c.a, c.b));
      case 1:
        return text_of(c.a);
      case 2:
        return text_of(c.b);
      case 3:
        return std::string(words_of(c.category));
      default:
        return last_of(c);
    }
  };
  rows.swatch = [&](std::uint64_t row) { return scene.theme.category(changes[row].category); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(changes[row].category); };
  rows.of = comparison;
  rows.key = [&](std::uint64_t row, int sort) {
    const Change& c = changes[row];
    if (sort == 0) return static_cast<double>(change_of(c.a, c.b));
    return static_cast<double>(sort == 1 ? c.a.count : c.b.count);
  };
  return rows;
}

}  // namespace

/// The figures that decide between two settings or two runs, above who holds what.
void ComparePane::draw_facts(Scene& scene, const Comparison& comparison) const {
  const SideFacts &a = comparison.facts_a, &b = comparison.facts_b;
  const auto fact = [&](const char* name, const std::string& from, const std::string& to, double change) {
    const std::string what = from == to ? from : from + " \u2192 " + to;
    if (ImGui::GetContentRegionAvail().x <
        ImGui::CalcTextSize(name).x + ImGui::CalcTextSize(what.c_str()).x + scene.px(8))
      return;
    ImGui::TextDisabled("%s", name);
    ImGui::SameLine(0, scene.px(8));
    ImGui::PushStyleColor(ImGuiCol_Text, change > 0 ? scene.theme.alarm : scene.theme.text);
    ImGui::TextUnformatted(what.c_str());
    ImGui::PopStyleColor();
    note_item(scene, std::string("compare/fact ") + name);
    ImGui::SameLine(0, scene.px(22));
  };
  const auto number = [](Bytes bytes) { return static_cast<double>(bytes.count); };
  const auto count = [](std::uint64_t of) { return static_cast<double>(of); };
  fact("reserved", text_of(a.reserved), text_of(b.reserved), number(b.reserved) - number(a.reserved));
  fact("failures", text_of(a.failures), text_of(b.failures), count(b.failures) - count(a.failures));
  fact("fragmentation", text_of_share(a.fragmentation), text_of_share(b.fragmentation),
       b.fragmentation - a.fragmentation);
  fact("driver calls", text_of(a.driver_calls), text_of(b.driver_calls), 0);
  fact("live", text_of(a.live), text_of(b.live), 0);
  if (chosen_above_) draw_most_changed(scene, comparison);
  ImGui::SameLine(0, 0);
  ImGui::NewLine();
}

void ComparePane::choose_changes(Scene& scene) {
  struct Choice {
    ChangesBy by;
    const char* name;
  };
  constexpr std::array<Choice, 3> choices{
      {{ChangesBy::stack, "by stack"}, {ChangesBy::category, "by category"}, {ChangesBy::layer, "by layer"}}};
  for (const Choice& choice : choices) {
    if (ImGui::RadioButton(choice.name, by_ == choice.by)) by_ = choice.by;
    note_item(scene, std::string("compare/") + choice.name);
    ImGui::SameLine();
  }
}

/// "activations +1.20 GiB,   gradients -3.00 MiB"
void ComparePane::draw_most_changed(Scene& scene, const Comparison& comparison) {
  std::string most;
  for (std::size_t i = 0; i < comparison.categories.size() && i < 4; ++i) {
    const CategoryChange& c = comparison.categories[i];
    most += (i == 0 ? "" : ",   ") + std::string(words_of(c.category)) + " " + change_text(change_of(c.a, c.b));
  }
  ImGui::SameLine(0, scene.px(18));
  ImGui::TextDisabled("%s", fitting(most, ImGui::GetContentRegionAvail().x).c_str());
}

void ComparePane::draw_changes(Scene& scene, const std::shared_ptr<const Comparison>& comparison) {
  if (comparison->categories.empty()) return draw_stacks(scene, comparison);
  if (!chosen_above_) {
    choose_changes(scene);
    draw_most_changed(scene, *comparison);
  }
  switch (by_) {
    case ChangesBy::stack:
      return draw_stacks(scene, comparison);
    case ChangesBy::category:
      return draw_categories(scene, comparison);
    case ChangesBy::layer:
      return draw_places(scene, comparison);
  }
}

void ComparePane::draw_categories(Scene& scene, const std::shared_ptr<const Comparison>& comparison) {
  const std::vector<CategoryChange>& changes = comparison->categories;
  Rows rows = rows_of(scene, comparison, changes, most_of);
  rows.selected = [&](std::uint64_t row) { return scene.selection.category == changes[row].category; };
  rows.on_click = [&](std::uint64_t row) { scene.selection.toggle(changes[row].category); };
  categories_.draw(scene, rows);
}

void ComparePane::draw_places(Scene& scene, const std::shared_ptr<const Comparison>& comparison) {
  places_.draw(scene, rows_of(scene, comparison, comparison->places, [](const PlaceChange& c) { return c.place; }));
}

void ComparePane::draw_stacks(Scene& scene, const std::shared_ptr<const Comparison>& comparison) {
  Selection& selection = scene.selection;
  const std::vector<StackChange>& changes = comparison->changes;
  Rows rows;
  rows.count = changes.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const StackChange& c = changes[row];
    switch (column) {
      case 0:
        return change_text(c.change());
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
    return scene.theme.hue(changes[row].change() > 0 ? 1 : 0);
  };
  // Stacks that only the other trace has match none of this one's.
  const bool instants = other_.empty();
  const auto own = [&](std::uint64_t row) {
    const StackChange& c = changes[row];
    return instants && c.stack_a == StackId::none ? c.stack_b : c.stack_a;
  };
  rows.selected = [&](std::uint64_t row) { return own(row) != StackId::none && selection.stack == own(row); };
  rows.highlighted = [&](std::uint64_t row) { return selection.highlights(scene.doc(), own(row)); };
  rows.on_hover = [&](std::uint64_t row) { selection.hover(own(row)); };
  rows.on_click = [&](std::uint64_t row) {
    if (own(row) != StackId::none) selection.select(own(row));
  };
  rows.of = comparison;
  rows.key = [&](std::uint64_t row, int sort) {
    const StackChange& c = changes[row];
    switch (sort) {
      case 0:
        return static_cast<double>(c.change());
      case 1:
        return static_cast<double>(c.bytes_a);
      case 2:
        return static_cast<double>(c.bytes_b);
      case 3:
        return static_cast<double>(c.count_a);
      default:
        return static_cast<double>(c.count_b);
    }
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
