#include "viewer/panes/compare_pane.h"

#include <imgui.h>
// after imgui.h
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer {
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

/// A choice between two, as buttons; `place`: "compare/by time".
template <class Value>
void choose(Scene& scene, const char* name, Value& value, Value chosen) {
  if (ImGui::RadioButton(name, value == chosen)) value = chosen;
  note_item(scene, std::string("compare/") + name);
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
                                         {"most of it", 0, false}}),
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
  if (can_be_classified(*document))
    other_known_->request(document->event_count(),
                          [file = source_->file(), limit = scene.memory_limit](const Progress& progress) {
                            return classify_file(file, limit, progress);
                          });
  if (!other_known_->is_current()) scene.busy = true;
  return {scene.classification, other_known_->value()};
}

SievePair ComparePane::sieves(Scene& scene, const ClassificationPair& known) {
  if (!scene.sieve || other_.empty()) return {scene.sieve, scene.sieve};
  const auto document = source_->document();
  SieveKey key{.filter = scene.sieve->filter(), .version = document->event_count()};
  if (known.b && key.filter.category) key.classified = static_cast<std::uint32_t>(known.b->categories.evidence.size());
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
  choose(scene, "by time", align_, AlignBy::time);
  choose(scene, "by step", align_, AlignBy::step);
  if (other_.empty()) {
    ImGui::SameLine(0, scene.px(18));
    if (ImGui::Button("keep the cursor's instant as A")) scene.selection.kept = scene.selection.cursor;
    ImGui::SameLine();
  } else {
    ImGui::SameLine(0, scene.px(18));
    choose(scene, "at the peaks", at_peaks_, true);
    choose(scene, "at the cursor", at_peaks_, false);
  }
  ImGui::SameLine(0, scene.px(18));
  ImGui::SetNextItemWidth(scene.px(280));
  ImGui::InputTextWithHint("##other", "path of another trace to compare with", &typed_);
  note_item(scene, "compare/file");
  if (item_entered(scene)) set_other(typed_);
  if (!other_.empty()) {
    ImGui::SameLine();
    if (ImGui::Button("back to instants")) set_other({});
  }
  // Drawn here if there is room, so that the list is a row longer.
  const auto comparison = comparison_.value();
  ImGui::SameLine(0, scene.px(18));
  chosen_above_ = comparison && !comparison->categories.empty() && ImGui::GetContentRegionAvail().x > scene.px(310);
  if (chosen_above_) choose_changes(scene);
  ImGui::NewLine();
}

std::shared_ptr<const Document> ComparePane::read_other(Scene& scene) {
  const std::string name(file_name(other_));
  if (given_up_) {
    if (draw_job_line(scene, "compare/go on", "Reading " + name + " was cancelled", "Resume")) given_up_ = false;
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
  if (draw_job_line(scene, "compare/cancel", "Reading " + name + " " + share + " %", "Cancel")) {
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
    say(scene, std::string(file_name(other_)) + " has no heap comparable with this one.", "Choose another heap above.");
    return std::nullopt;
  }
  const std::uint32_t event = at_peaks_ ? scene.series()->peak_live_event : scene.selection.cursor;
  return CompareSides{{{.moment = {scene.document, scene.selection.heap, event}, .title = "this trace"},
                       {.moment = {other, heap, series->peak_live_event}, .title = std::string(file_name(other_))}}};
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
      sides.at(i).title += "   no marked steps: aligned by time";
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

}  // namespace memreel::viewer
