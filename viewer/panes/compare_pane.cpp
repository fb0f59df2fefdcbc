// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/compare_pane.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
namespace {

constexpr double axis_height = 16;

std::vector<SeriesColumn> columns_of(const CompareSide& side, double begin, double end, std::uint32_t width) {
  const Document& document = *side.moment.document;
  const HeapSeries* const series = document.series(side.moment.heap);
  if (series == nullptr || document.empty()) return {};
  std::vector<Nanoseconds> edges;
  for (std::uint32_t x = 0; x <= width; ++x) edges.push_back(side.scale.time_at(begin + (end - begin) * x / width));
  std::vector<SeriesColumn> columns = series_columns(document, *series, edges);
  // Nothing is shown before a trace or after it.
  const Nanoseconds first = document.first_time(), last = document.last_time();
  for (std::uint32_t x = 0; x < width; ++x)
    if (edges[x + 1] < first || edges[x] > last) columns[x] = {};
  return columns;
}

}  // namespace

CompareRows::Range CompareRows::range_of(const Selection& selection, const CompareSides& sides, std::size_t reference) {
  const CompareSide& side = sides.at(reference);
  Range range{side.scale.position_of(selection.view.begin), side.scale.position_of(selection.view.end)};
  const Document& document = *side.moment.document;
  const bool is_all = selection.view.begin <= document.first_time() && selection.view.end > document.last_time();
  if (!is_all) return range;
  for (const CompareSide& other : sides) {
    range.begin = std::min(range.begin, other.scale.position_of(other.moment.document->first_time()));
    range.end = std::max(range.end, other.scale.position_of(other.moment.document->last_time()));
  }
  return range;
}

void CompareRows::request(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by, float width) {
  Key key{.by = by, .range = range, .width = static_cast<std::uint32_t>(std::max(width, 1.0F))};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    key.documents.at(i) = sides.at(i).moment.document;
    key.heaps.at(i) = sides.at(i).moment.heap;
    key.begins.at(i) = sides.at(i).scale.time_at(range.begin);
    key.ends.at(i) = sides.at(i).scale.time_at(range.end);
  }
  columns_.request(
      key,
      [sides, key](const Progress& progress) -> std::optional<Columns> {
        Columns columns;
        for (std::size_t i = 0; i < sides.size(); ++i) {
          if (progress.cancelled()) return std::nullopt;
          columns.at(i) = columns_of(sides.at(i), key.range.begin, key.range.end, key.width);
        }
        return columns;
      },
      false);
  if (!columns_.is_current()) scene.busy = true;
}

std::optional<CompareRows::Click> CompareRows::draw_row(Scene& scene, const CompareSides& sides, std::size_t number,
                                                        const Range& range, std::uint64_t top) {
  const CompareSide& side = sides.at(number);
  const std::string name = number == 0 ? "A" : "B";
  const Area area = take_area(name.c_str());
  note_place(scene, "compare/row " + name, area);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, area, scene.theme.ground);
  const double per_pixel = (range.end - range.begin) / static_cast<double>(area.width());
  const auto x_at = [&](double position) {
    return area.left + static_cast<float>(std::clamp((position - range.begin) / per_pixel, -1e6, 1e6));
  };
  const HeapSeries* const series = side.moment.document->series(side.moment.heap);
  list.PushClipRect(area.min(), area.max(), true);
  if (const auto columns = columns_.value(); columns && series != nullptr) {
    const std::vector<SeriesColumn>& own = columns->at(number);
    const float step = own.empty() ? 1 : area.width() / static_cast<float>(own.size());
    draw_series(scene.theme, list, area, top, own, series->has_pending,
                [&](std::size_t x) { return area.left + step * static_cast<float>(x); });
  }
  const auto line_at = [&](double position, Colour colour) {
    const float x = std::floor(x_at(position));
    fill(list, {x, area.top, x + scene.px(1), area.bottom}, colour);
  };
  if (hovered_) line_at(*hovered_, with_alpha(scene.theme.text, 0x50));
  if (side.moment.event != 0) line_at(side.scale.position_of(side.time()), scene.theme.accent);
  label(scene, list, {area.left + scene.px(6), area.top + scene.px(2)}, name + "   " + side.title);
  list.PopClipRect();

  std::optional<Click> click;
  if (ImGui::IsItemHovered()) {
    const double here = range.begin + per_pixel * static_cast<double>(ImGui::GetIO().MousePos.x - area.left);
    next_hovered_ = here;
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left))
      click = {.side = number, .event = side.moment.document->events_until(side.scale.time_at(here))};
  }
  return click;
}

void CompareRows::draw_axis(Scene& scene, const CompareSides& sides, const Range& range, AlignBy by) {
  const Area area = take_area("compare axis");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const double length = range.end - range.begin;
  const auto tick = [&](double position, const std::string& what) {
    const float x = area.left + static_cast<float>((position - range.begin) / length) * area.width();
    fill(list, {std::floor(x), area.top, std::floor(x) + 1, area.top + scene.px(4)}, scene.theme.faint);
    tick_label(scene, list, {x, area.top}, area.right, what);
  };
  const float spacing = scene.px(120);
  if (by == AlignBy::time) {
    const auto ns = [](double position) { return Nanoseconds{static_cast<std::int64_t>(position)}; };
    const TimeAxis axis({ns(range.begin), std::max(ns(range.end), ns(range.begin) + Nanoseconds{1})}, area);
    for (const Nanoseconds at : axis.ticks(Nanoseconds{}, spacing))
      tick(static_cast<double>(at.count()), time_text(at, axis.tick_step(spacing)));
    return;
  }
  const double most = std::max(1.0, static_cast<double>(area.width() / spacing));
  const double step = std::max(1.0, std::ceil(length / most));
  // The part drawn after the last step is not a step.
  const double last = std::max(sides[0].scale.last_step(), sides[1].scale.last_step());
  for (double at = std::ceil(std::max(range.begin, 0.0) / step) * step; at < std::min(range.end, last); at += step) {
    const std::string number = std::to_string(static_cast<std::int64_t>(at) + 1);
    tick(at, "step " + number);
    note_item(scene, "compare/step " + number);
  }
  if (last >= range.begin && last < range.end) tick(last, "after the last step");
}

std::optional<CompareRows::Click> CompareRows::draw(Scene& scene, const CompareSides& sides, std::size_t reference,
                                                    AlignBy by, float height) {
  const Range range = range_of(scene.selection, sides, reference);
  request(scene, sides, range, by, ImGui::GetContentRegionAvail().x);
  std::uint64_t top = 1;
  if (const auto columns = columns_.value())
    for (const std::vector<SeriesColumn>& own : *columns) top = std::max(top, highest(own));
  top += top / 12;
  hovered_ = std::exchange(next_hovered_, std::nullopt);
  const float axis = scene.px(axis_height), row = std::max((height - axis) / 2, scene.px(8));
  std::optional<Click> click;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, scene.px(1)});
  for (std::size_t i = 0; i < sides.size(); ++i) {
    ImGui::BeginChild(i == 0 ? "compare A" : "compare B", {0, row});
    if (const auto clicked = draw_row(scene, sides, i, range, top)) click = clicked;
    ImGui::EndChild();
  }
  ImGui::BeginChild("compare axis", {0, axis});
  draw_axis(scene, sides, range, by);
  ImGui::EndChild();
  ImGui::PopStyleVar();
  return click;
}

namespace {

void say(Scene& scene, std::string_view what, std::string_view remedy = {}) {
  const Area area = take_area("compare");
  note_place(scene, "compare", area);
  explain(scene, area, what, remedy);
}

std::string live_at(const Moment& moment) {
  const HeapSeries* const series = moment.document->series(moment.heap);
  if (series == nullptr) return "no such heap";
  return text_of(Bytes{value_of(moment.document->metrics_after(*series, moment.event), Metric::live)}) + " live";
}

/// A choice between two, as buttons.
template <class Value>
void choose(Scene& scene, const char* place, Value& value, Value chosen) {
  if (radio_button(scene, place, value == chosen)) value = chosen;
  ImGui::SameLine();
}

}  // namespace

ComparePane::ComparePane()
    : table_("compare", {{"change", 110, true, 0},
                         {"A", 100, true, 1},
                         {"B", 100, true, 2},
                         {"count A", 80, true, 3},
                         {"count B", 80, true, 4},
                         {"who", 0, false}}),
      categories_("changed categories", {{"change", 110, true, 0},
                                         {"A", 100, true, 1},
                                         {"B", 100, true, 2},
                                         {"category", 130, false},
                                         {"largest change", 0, false}}),
      places_("changed layers", {{"change", 110, true, 0},
                                 {"A", 100, true, 1},
                                 {"B", 100, true, 2},
                                 {"category", 130, false},
                                 {"layer", 0, false}}) {}

void ComparePane::set_other(std::string file) {
  other_ = std::move(file);
  source_.reset();
  other_known_ = std::make_unique<ClassificationJob>();
  other_sieve_ = std::make_unique<SieveJob>();
  sieves_ = {};
  given_up_ = false;
}

ClassificationPair ComparePane::classified(Scene& scene) {
  if (!scene.has_categories() || other_.empty()) return {scene.classification, scene.classification};
  const auto document = source_->document();
  if (document->whole && can_be_classified(*document))
    other_known_->request(document->event_count(), [whole = document->whole](const Progress& progress) {
      return classify_trace(*whole, progress);
    });
  if (!other_known_->is_current()) scene.busy = true;
  return {scene.classification, other_known_->value()};
}

SievePair ComparePane::sieves(Scene& scene, const ClassificationPair& known) {
  if (!scene.sieve || other_.empty()) return {scene.sieve, scene.sieve};
  const auto document = source_->document();
  SieveKey key{.filter = scene.sieve->filter(), .version = document->event_count()};
  if (known.b && key.filter.category) key.classified = known.b->count();
  other_sieve_->request(key, [document, filter = key.filter, known = known.b](const Progress&) {
    return std::optional<Sieve>(std::in_place, document, filter, known);
  });
  if (other_sieve_->is_current())
    sieves_ = {scene.sieve, other_sieve_->value()};
  else
    scene.busy = true;
  return sieves_;
}

void ComparePane::draw_controls(Scene& scene) {
  choose(scene, "compare/by time", align_, AlignBy::time);
  choose(scene, "compare/by step", align_, AlignBy::step);
  if (other_.empty()) {
    ImGui::SameLine(0, scene.px(18));
    command_button(scene, "compare/keep", {.is_large = true});
    ImGui::SameLine();
  } else {
    ImGui::SameLine(0, scene.px(18));
    choose(scene, "compare/at the peaks", at_peaks_, true);
    choose(scene, "compare/at the cursor", at_peaks_, false);
  }
  ImGui::SameLine(0, scene.px(18));
  ImGui::SetNextItemWidth(scene.px(280));
  ImGui::InputTextWithHint("##other", "path of another trace to compare with", &typed_);
  note_field(scene, "compare/file");
  if (item_entered(scene)) set_other(typed_);
  if (!other_.empty()) {
    ImGui::SameLine();
    if (push_button(scene, "compare/instants", {.is_large = true})) set_other({});
  }
  // Drawn here if there is room, so that the list is a row longer.
  const auto comparison = comparison_.value();
  ImGui::SameLine(0, scene.px(18));
  chosen_above_ = comparison && !comparison->categories.empty() && ImGui::GetContentRegionAvail().x > scene.px(310);
  if (chosen_above_) choose_changes(scene);
  ImGui::NewLine();
}

std::shared_ptr<const Document> ComparePane::read_other(Scene& scene) {
  const std::string name(base_name(other_));
  if (given_up_) {
    if (draw_job_line(scene, "compare/go on", "Reading " + name + " was cancelled")) given_up_ = false;
    say(scene, "The other trace was not read.");
    return nullptr;
  }
  if (!source_) source_ = std::make_unique<Source>(other_, scene.wake, scene.memory_limit);
  const SourceStatus status = source_->status();
  auto document = source_->document();
  if (status.stage == Stage::failed && status.error) {
    say(scene, name + " can't be read: " + status.error->what, status.error->remedy);
    return nullptr;
  }
  if (document->complete) return document;
  scene.busy = true;
  const std::string share = std::to_string(static_cast<int>(status.progress * 100));
  if (draw_job_line(scene, "compare/cancel", "Reading " + name + " " + share + " %")) {
    given_up_ = true;
    source_.reset();
  }
  say(scene, "Shows who holds more and who holds less.");
  return nullptr;
}

std::optional<CompareSides> ComparePane::two_traces(Scene& scene) {
  if (!scene.doc().complete) {
    say(scene, "Compared once the whole trace is read.");
    return std::nullopt;
  }
  const auto other = read_other(scene);
  if (!other) return std::nullopt;
  const HeapId heap = counterpart(scene.doc(), scene.selection.heap, *other);
  const HeapSeries* const series = other->series(heap);
  if (series == nullptr || other->empty()) {
    say(scene, std::string(base_name(other_)) + " has no heap comparable with this one.", "Choose another heap above.");
    return std::nullopt;
  }
  const std::uint32_t event = at_peaks_ ? scene.series()->peak_live_event : scene.selection.cursor;
  return CompareSides{{{.moment = {scene.document, scene.selection.heap, event}, .title = "this trace"},
                       {.moment = {other, heap, series->peak_live_event}, .title = std::string(base_name(other_))}}};
}

CompareSides ComparePane::two_instants(Scene& scene) {
  const HeapId heap = scene.selection.heap;
  const std::optional<std::uint32_t> kept = scene.selection.kept;
  return {{{.moment = {scene.document, heap, std::min(kept.value_or(0), scene.doc().event_count())},
            .title = kept ? "the kept instant" : "the beginning; K keeps an instant"},
           {.moment = {scene.document, heap, scene.selection.cursor}, .title = "the cursor"}}};
}

AlignBy ComparePane::align(Scene& scene, CompareSides& sides) {
  const bool instants = other_.empty();
  for (CompareSide& side : sides)
    side.scale = SideScale::by_time(instants ? side.time() : side.moment.document->first_time());
  if (align_ == AlignBy::time) return AlignBy::time;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const StepsOf key{sides.at(i).moment.document, sides.at(i).moment.heap};
    steps_.at(i).request(key, [key](const Progress&) -> std::optional<Steps> {
      const memreel::Steps steps = steps_of(*key.document, key.heap);
      if (steps.ends.empty()) return Steps{};
      return Steps{.has_any = true, .scale = SideScale::by_step(*key.document, steps)};
    });
    if (!steps_.at(i).is_current()) {
      scene.busy = true;
      return AlignBy::time;
    }
    if (!steps_.at(i).value()->has_any) {
      sides.at(i).title += "   no steps: aligned by time";
      return AlignBy::time;
    }
  }
  for (std::size_t i = 0; i < sides.size(); ++i) sides.at(i).scale = steps_.at(i).value()->scale;
  // Aligns the steps of the two instants.
  const auto step_of = [](const CompareSide& side) { return std::floor(side.scale.position_of(side.time())); };
  if (instants) sides[0].scale.move_to_zero(step_of(sides[0]) - step_of(sides[1]));
  return AlignBy::step;
}

void ComparePane::draw(Scene& scene) {
  draw_controls(scene);
  if (scene.doc().empty() || scene.series() == nullptr) return say(scene, "This trace has no memory events.");
  const bool instants = other_.empty();
  std::optional<CompareSides> sides = instants ? two_instants(scene) : two_traces(scene);
  if (!sides) return;
  const AlignBy by = align(scene, *sides);
  auto& [a, b] = *sides;
  if (!instants && !at_peaks_)
    b.moment.event = b.moment.document->events_until(b.scale.time_at(a.scale.position_of(a.time())));
  for (CompareSide& side : *sides) side.title += "   " + live_at(side.moment);
  const float height = std::clamp(ImGui::GetContentRegionAvail().y * 0.42F, scene.px(44), scene.px(260));
  if (const auto click = rows_.draw(scene, *sides, instants ? 1 : 0, by, height)) {
    if (instants && click->side == 0) {
      scene.selection.kept = click->event;
    } else if (instants || click->side == 0) {
      scene.selection.cursor = click->event;
      scene.selection.remember();
      at_peaks_ = false;
    }
  }
  const ClassificationPair known = classified(scene);
  const Key key{{a.moment, b.moment}, known, sieves(scene, known)};
  comparison_.request(
      key, [key](const Progress& progress) { return compare(key.moments, key.known, key.sieves, progress); },
      !instants);
  if (!comparison_.is_current()) scene.busy = true;
  draw_job(scene, "compare", "Comparing", comparison_);
  const auto comparison = comparison_.value();
  if (!comparison) return say(scene, "Shows who holds more and who holds less.");
  draw_facts(scene, *comparison);
  if (comparison->changes.empty() && comparison->categories.empty())
    return say(scene, scene.sieve ? "No difference passes the filter." : "Live memory is the same in both.",
               instants ? "Keep an instant as A, then move the cursor." : "");
  draw_changes(scene, comparison);
}

// Who holds more and who holds less: by stack, by category, by layer.

namespace {

std::string change_text(std::int64_t change) { return change == 0 ? "0 B" : text_of_growth(change); }

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
    const char* place;
  };
  constexpr std::array<Choice, 3> choices{{{ChangesBy::stack, "compare/by stack"},
                                           {ChangesBy::category, "compare/by category"},
                                           {ChangesBy::layer, "compare/by layer"}}};
  for (const Choice& choice : choices) {
    if (radio_button(scene, choice.place, by_ == choice.by)) by_ = choice.by;
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
