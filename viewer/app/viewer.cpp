// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/viewer.h"

#include <GLFW/glfw3.h>

#include <algorithm>

#include "formats/model/files.h"
#include "viewer/model/navigation.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {

Viewer::Viewer(Window& window, Settings settings, Bytes memory_limit)
    : window_(window),
      settings_(std::move(settings)),
      memory_limit_(memory_limit),
      theme_(settings_.dark ? dark_theme() : light_theme()) {
  make_commands();
  commands_.set_passing([this] { return passing_commands(); });
  commands_.set_has_trace([this] { return !document_->empty(); });
  set_text_size(settings_.text_size);
}

void Viewer::choose(const RankChoice& choice) {
  if (choice.show) {
    const std::filesystem::path& file = ranks_->files()[*choice.show];
    if (const auto series = ranks_->series(*choice.show); series && !series->problem.empty())
      return complain({.what = series->problem, .where = file.string()});
    if (shows_job()) layout_.maximise("");
    if (!source_ || file != source_->path()) open(file);
  }
  if (!choice.compare || !source_) return;
  compare_with(ranks_->files()[*choice.compare]);
  if (shows_job()) layout_.maximise("");
  layout_.show_tab("compare");
}

void Viewer::forget_document() {
  // The panes' state of the previous trace means nothing in the next.
  panes_ = std::make_unique<Panes>();
  heap_ = HeapAt();
  heap_rounding_.reset();
  live_ = {};
  live_known_.reset();
  live_sieve_.reset();
  sieve_.reset();
  document_ = std::make_shared<const Document>();
  selection_ = Selection();
  overlays_.clear();
  wanted_instant_.reset();
  cursor_follows_ = true;
  judged_events_ = 0;
  judged_.reset();
  axis_of_.reset();
  followed_heap_ = HeapId::none;
}

void Viewer::set_dark(bool dark) {
  settings_.dark = dark;
  theme_ = dark ? dark_theme() : light_theme();
}

void Viewer::set_text_size(float factor) {
  settings_.text_size = std::clamp(factor, least_text_size, most_text_size);
  window_.set_zoom(settings_.text_size);
}

SourceStatus Viewer::status() const { return source_ ? source_->status() : SourceStatus{.stage = Stage::complete}; }

bool Viewer::is_idle() const {
  const Stage stage = status().stage;
  if (opening_) return false;
  return stage == Stage::failed || (stage == Stage::complete && !busy_ && !wanted_instant_);
}

bool Viewer::go_to(std::string_view instant) {
  const auto event = instant_named(*document_, selection_.heap, instant);
  if (!event) return false;
  cursor_follows_ = false;
  if ((source_ || ranks_) && !document_->complete)
    wanted_instant_ = instant;  // it may not be read, or not be here, yet
  else
    selection_.cursor = *event;
  return true;
}

void Viewer::select_largest() {
  const auto largest = std::ranges::max_element(heap_.blocks, {}, [&](const HeldBlock& block) {
    return document_->stack_of(block.allocation) == StackId::none ? 0_B : block.size;
  });
  if (largest != heap_.blocks.end()) selection_.select(*document_, largest->allocation);
}

void Viewer::open_sample() {
  const std::filesystem::path sample = sample_trace();
  if (!sample.empty()) open(std::make_unique<Source>(sample, [] { Window::wake(); }), true);
}

void Viewer::begin_tour() {
  if (!source_) open_sample();
  if (!source_) return;
  layout_.maximise("");
  tour_.begin();
}

void Viewer::switch_colours() {
  const bool was_category = selection_.split_by(knows_categories()) == SplitBy::category;
  const bool to_category = !was_category && knows_categories();
  selection_.split = to_category ? SplitBy::category : SplitBy::stack;
  selection_.colour = to_category ? MapColour::category : MapColour::stack;
}

void Viewer::begin_to_open() {
  const std::filesystem::path here = source_ ? source_->path() : std::filesystem::path();
  std::error_code unknown;
  const std::filesystem::path folder = here.empty() ? here : std::filesystem::absolute(here, unknown).parent_path();
  open_dialog_.open(folder);
}

void Viewer::begin(const StartChoice& choice) {
  if (!choice.file.empty()) open(choice.file);
  if (choice.sample) open_sample();
}

void Viewer::draw() {
  if (source_) source_->hold(false);
  const bool showed_events = panes_->timeline.shows_events();
  const double now = glfwGetTime();
  const double seconds = last_frame_ == 0 ? 0 : now - last_frame_;
  last_frame_ = now;
  ++frames_;
  if (std::exchange(close_wanted_, false)) {
    // A rank's file is closed first, then its job.
    if (shows_job() || !ranks_)
      ranks_.reset();
    else
      layout_.maximise("ranks");
    close();
    window_.set_title(ranks_ ? job_name_ + " - memreel" : "memreel");
  }
  follow_opening();
  open_decider();
  tell_missing_ranks();
  begin(std::exchange(chosen_, {}));
  if (ranks_) choose(std::exchange(choice_, {}));
  follow_document();
  if (const auto& dropped = window_.dropped_files(); dropped.size() > 1)
    open_ranks({dropped.begin(), dropped.end()});
  else if (!dropped.empty())
    open(dropped.front());
  const std::uint32_t cursor_before = selection_.cursor;
  handle_keys(seconds);
  if (selection_.cursor != cursor_before) cursor_follows_ = false;

  selection_.cursor = std::min(selection_.cursor, document_->event_count());
  places_.clear();
  busy_ = alone_ != nullptr || (ranks_ != nullptr && !ranks_->complete()) ||
          (prediction_ != nullptr && prediction_->result() == nullptr);
  update_judged(now);
  update_classification();
  update_axis();
  update_sieve();
  update_heap();
  Scene scene{.document = document_,
              .memory_limit = memory_limit_,
              .selection = selection_,
              .theme = theme_,
              .scale = window_.scale(),
              .heap = heap_,
              .heap_order = settings_.heap_order,
              .live = live_,
              .rounding = panes_->rounding,
              .classification = panes_->classification.value(),
              .classifying = !panes_->classification.is_current(),
              .sieve = sieve_,
              .sieving = sieving_,
              .judged_events = judged_events_,
              .judged = judged_,
              .findings = panes_->verdicts.known(),
              .overlays = overlays_,
              .places = places_,
              .focus = focus_,
              .controls = commands_,
              .enter = window_.entered(),
              .busy = busy_,
              .wake = [] { Window::wake(); }};

  focus_.begin_frame();
  commands_.begin_frame();
  const ImGuiIO& io = ImGui::GetIO();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(io.DisplaySize);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::Begin("memreel", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar(2);  // menus and tooltips have both
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  panes_->policies.update(scene);
  panes_->allocations.step_match(scene, std::exchange(match_step_, 0));
  draw_top_bar(scene);
  draw_notice(scene);
  if (shows_job())
    layout_.draw(scene, settings_, {.tabs = {}, .draw = [&](std::string_view) { draw_job(scene); }});
  else if (!source_ || status().stage == Stage::failed || document_->empty())
    chosen_.file = draw_start_page(scene, welcome_to(source_.get(), *document_), settings_.recent);
  else
    layout_.draw(scene, settings_, contents(scene));
  ImGui::End();
  ImGui::PopStyleVar();
  commands_.run_pressed();
  commands_.draw_palette(window_, theme_, places_);
  if (const auto file = open_dialog_.draw(scene, window_)) chosen_.file = file->string();
  commands_.draw_help(window_, theme_, places_);
  draw_shadows(scene.scale);
  tour_.draw(scene, layout_.maximised().empty(), settings_.tour_done);
  focus_.end_frame(theme_, scene.scale);
  if (focus_.is_waiting()) busy_ = true;

  // A view or cursor that the user has moved stays in place when the trace grows.
  if (selection_.cursor != cursor_before && cursor_before != 0) cursor_follows_ = false;
  remember_view(now);
  selection_.end_frame();
  if (source_ && !showed_events && panes_->timeline.shows_events()) source_->hold(true);  // until this is on screen
}

PaneContents Viewer::contents(Scene& scene) {
  PaneContents contents{
      .tabs = {},
      .draw = [this, &scene](std::string_view name) { draw_named(scene, name); },
      .verdict_height = panes_->verdict.strip_height(scene),
      .draw_verdict_strip = [this, &scene] { follow(panes_->verdict.draw_strip(scene, panes_->verdicts)); },
      .draw_beside_tabs =
          [this, &scene](std::string_view tab) {
            draw_filter_bar(scene);
            if (tab == "allocations") panes_->allocations.draw_progress(scene);
          }};
  for (const std::string_view name : tab_names)
    if (has_tab(name))
      contents.tabs.push_back({name, name == "oom"     ? document_->columns.failure.size()
                                     : name == "leaks" ? panes_->verdicts.leaks()
                                                       : 0});
  return contents;
}

void Viewer::draw_named(Scene& scene, std::string_view name) {
  if (name == "verdict")
    follow(panes_->verdict.draw(scene, panes_->verdicts));
  else if (name == "timeline")
    panes_->timeline.draw(scene);
  else if (name == "map")
    panes_->map.draw(scene, panes_->verdicts);
  else if (name == "heap")
    panes_->heap.draw(scene, panes_->verdicts);
  else if (name == "inspector")
    panes_->inspector.draw(scene);
  else if (name == "allocations")
    panes_->allocations.draw(scene);
  else if (name == "stacks")
    panes_->stacks.draw(scene, panes_->verdicts);
  else if (name == "flame")
    panes_->flame.draw(scene, panes_->verdicts);
  else if (name == "segments")
    panes_->segments.draw(scene);
  else if (name == "pools")
    panes_->pools.draw(scene, panes_->verdicts);
  else if (name == "holders")
    panes_->holders.draw(scene, panes_->verdicts);
  else if (name == "devices")
    panes_->devices.draw(scene, panes_->verdicts);
  else if (name == "tags")
    panes_->tags.draw(scene, panes_->verdicts);
  else if (name == "oom")
    panes_->failures.draw(scene, panes_->verdicts);
  else if (name == "leaks")
    panes_->leaks.draw(scene, panes_->verdicts);
  else if (name == "fragmentation")
    panes_->fragmentation.draw(scene, panes_->verdicts);
  else if (name == "compare")
    panes_->compare.draw(scene);
  else if (name == "heaps")
    panes_->heaps.draw(scene);
  else if (name == "policies")
    panes_->policies.draw(scene);
  else if (name == "ranks" && ranks_)
    draw_job(scene);
  else if (name == "prediction" && prediction_)
    draw_prediction(scene, prediction_->result().get());
}

void Viewer::draw_job(Scene& scene) {
  const RankChoice choice = ranks_pane_.draw(scene, *ranks_, source_ ? source_->path() : std::filesystem::path());
  if (choice.show || choice.compare) choice_ = choice;
}

void Viewer::follow(const VerdictAction& action) {
  if (action.go) {
    const Destination& to = *action.go;
    layout_.maximise("");
    if (to.heap != HeapId::none) selection_.heap = to.heap;
    if (to.cursor) {
      selection_.cursor = *to.cursor;
      cursor_follows_ = false;
    }
    if (to.stack) selection_.select(*to.stack);
    if (to.category) selection_.category = to.category;
    if (!to.tab.empty()) layout_.show_tab(to.tab);
    selection_.remember();
  }
  if (action.overlay.empty()) return;
  layout_.show_tab("policies");
  panes_->policies.overlay(action.overlay);
}

// Updates before a frame is drawn: the document, its classification, the heap at the cursor.

void Viewer::follow_document() {
  if (!source_ || paused_) return;
  const auto latest = source_->document();
  if (latest == document_) return;
  const bool first = document_->empty() && !latest->empty();
  const bool moved = !first && selection_.view != followed_view_;
  if (!first && latest->begun_anew != document_->begun_anew) {
    forget_document();  // another trace, at the same path
    return follow_document();
  }
  if (!first && latest->renumbered != document_->renumbered) renumber(*latest);
  document_ = latest;
  if (document_->empty()) {
    if (document_->complete) wanted_instant_.reset();
    return;
  }
  const bool chosen = selection_.heap != followed_heap_;
  if (selection_.heap == HeapId::none || (cursor_follows_ && !moved && !chosen))
    selection_.heap = followed_heap_ = main_heap(*document_);
  if (!moved) selection_.look_at_all(*document_);
  followed_view_ = moved ? TimeRange() : selection_.view;
  if (cursor_follows_) {
    if (const HeapSeries* const series = document_->series(selection_.heap))
      selection_.cursor = series->peak_live_event;
  }
  if (wanted_instant_ && document_->complete) go_to(*std::exchange(wanted_instant_, std::nullopt));
  if (!moved) settled_view_ = last_view_ = selection_.view;
  if (first) selection_.remember();
}

/// View moves without a pause in between are one step in the history.
void Viewer::remember_view(double now) {
  constexpr double pause = 0.3;
  if (selection_.view != last_view_) {
    last_view_ = selection_.view;
    view_moved_ = now;
  } else if (selection_.view != settled_view_ && now - view_moved_ > pause) {
    settled_view_ = selection_.view;
    selection_.remember();
  }
}

/// Keeps the part of the selection that is still valid in `next`.
void Viewer::renumber(const Document& next) {
  if (document_->empty()) return;
  auto panes = std::make_unique<Panes>();
  panes->compare.set_other(panes_->compare.other());
  panes_ = std::move(panes);
  overlays_.clear();
  sieve_.reset();
  heap_ = HeapAt();
  judged_events_ = 0;
  judged_.reset();
  if (selection_.cursor != 0)
    selection_.cursor = next.events_until(document_->time(std::min(selection_.cursor, document_->event_count()) - 1));
  selection_.renumber();
}

void Viewer::update_judged(double now) {
  if (!document_->complete) return;
  const std::uint32_t events = document_->event_count();
  if (events != std::exchange(grown_to_, events)) grown_at_ = now;
  const std::optional<std::uint32_t> judged = judged_events_ == 0 ? std::nullopt : std::optional(judged_events_);
  if (!is_due(judged, events, status().followed, now - grown_at_)) return;
  if (!judged_ || judged_events_ != events) judged_ = document_->whole;
  judged_events_ = events;
}

void Viewer::update_classification() {
  if (!judged_ || !document_->complete || document_->empty() || !can_be_classified(*document_)) return;
  panes_->classification.request(
      judged_events_, [trace = judged_](const Progress& progress) { return classify_trace(*trace, progress); }, false);
  if (!panes_->classification.is_current()) busy_ = true;
}

/// Without a filter everything passes; else the previous sieve is used until the requested one is ready.
void Viewer::update_sieve() {
  SieveKey key{.filter = typed_filter(selection_.search), .version = document_->event_count()};
  key.filter.category = selection_.category;
  if (key.filter.lets_all_pass()) {
    sieve_.reset();
    sieving_ = false;
    return;
  }
  const auto known = panes_->classification.value();
  if (known && key.filter.category) key.classified = known->count();
  panes_->sieve.request(key, [document = document_, filter = key.filter, known](const Progress&) {
    return std::optional<Sieve>(std::in_place, document, filter, known);
  });
  sieving_ = !panes_->sieve.is_current();
  if (sieving_)
    busy_ = true;
  else
    sieve_ = panes_->sieve.value();
}

/// The heap at the cursor. Its rounding is added once known.
void Viewer::update_heap() {
  if (document_->complete && has_known_rounding(*document_)) {
    panes_->rounding.request(
        document_->event_count(),
        [document = document_](const Progress& progress) { return find_rounding(*document, progress); }, false);
    if (!panes_->rounding.is_current()) busy_ = true;
  }
  const auto rounding = panes_->rounding.value();
  const auto known = panes_->classification.value();
  const bool same_heap = heap_.event == selection_.cursor && heap_.heap == selection_.heap &&
                         heap_version_ == document_->event_count() && heap_rounding_ == rounding;
  if (same_heap && live_known_ == known && live_sieve_ == sieve_) return;
  if (!same_heap) heap_ = heap_at(*document_, selection_.heap, selection_.cursor, rounding.get());
  heap_version_ = document_->event_count();
  heap_rounding_ = rounding;
  live_known_ = known;
  live_sieve_ = sieve_;
  live_ = known ? live_by_category(heap_.blocks, *known, sieve_.get()) : LiveByCategory{};
}

/// Steps are found in the background; without any, the axis counts time.
void Viewer::update_axis() {
  if (axis_ == AxisBy::time || document_->empty()) {
    selection_.axis = {};
    return;
  }
  if (axis_ == AxisBy::event) {
    if (selection_.axis.by() != AxisBy::event || axis_of_ != document_)
      selection_.axis = AxisScale::by_events(document_);
    axis_of_ = document_;
    return;
  }
  const AxisKey key{document_, selection_.heap};
  panes_->steps.request(
      key,
      [key](const Progress&) -> std::optional<AxisScale> {
        const Steps steps = steps_of(*key.document, key.heap);
        return steps.ends.empty() ? AxisScale() : AxisScale::by_steps(SideScale::by_step(*key.document, steps));
      },
      false);
  if (!panes_->steps.is_current()) busy_ = true;
  const auto scale = panes_->steps.value();
  if (!scale) return;
  selection_.axis = *scale;
  if (!panes_->steps.is_current()) return;
  const bool asked = std::exchange(steps_asked_, false);
  if (scale->by() != AxisBy::time) return;
  axis_ = AxisBy::time;
  if (asked) notice_ = "The trace shows no steps, so the axis counts time";
}

}  // namespace memreel::viewer
