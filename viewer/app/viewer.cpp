#include "viewer/app/viewer.h"

#include <GLFW/glfw3.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/model/sample_trace.h"
#include "viewer/model/labels.h"
#include "viewer/model/stack_lines.h"

namespace memreel::viewer {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, map_colour_count> colour_words{"category", "stack", "size",   "age",
                                                                 "stream",   "pool",  "verdict"};
constexpr std::array<const char*, split_count> split_words{"nothing", "category", "phase", "stack", "pool",
                                                           "stream",  "thread",   "tag",   "step"};

constexpr std::array<const char*, axis_count> axis_words{"time", "event", "step"};

/// The heap that is shown first: the one that mattered most.
HeapId main_heap(const Document& document) {
  const auto most = std::ranges::max_element(document.heaps, {}, [](const HeapSeries& series) {
    return std::pair{series.allocations != 0, std::max(series.peak_reserved, series.peak_live)};
  });
  return most == document.heaps.end() ? HeapId::none : most->heap;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string clipboard() {
  const char* const text = ImGui::GetClipboardText();
  return text == nullptr ? std::string() : text;
}

Json compared(ComparePane& pane) {
  if (!pane.shown()) return nullptr;
  const auto facts = [](const SideFacts& side) {
    return Json{{"reserved_bytes", side.reserved.count},
                {"live_bytes", side.live.count},
                {"fragmentation", side.fragmentation},
                {"failures", side.failures},
                {"driver_calls", side.driver_calls}};
  };
  const auto comparison = pane.comparison();
  return {{"facts", {facts(comparison->facts_a), facts(comparison->facts_b)}},
          {"a", pane.shown()->a.event},
          {"b", pane.shown()->b.event},
          {"by", pane.aligned_by() == AlignBy::step ? "step" : "time"}};
}

/// `known`: null where nothing is.
Json described(const Document& document, const Classification* known, std::uint32_t allocation) {
  const Allocation a = document.allocation(allocation);
  Json json{{"bytes", a.size.count},
            {"address", a.address.value},
            {"begin", a.begin},
            {"label", stack_label(*document.tables, a.stack)}};
  if (known == nullptr) return json;
  json["category"] = name_of(known->category(allocation));
  json["evidence"] = row_of(known->evidence(allocation)).name;
  json["phase"] = name_of(known->phase(allocation));
  json["layer"] = known->layer(*document.tables, a.stack, known->call(allocation));
  return json;
}

/// `strip`: null before it is known.
Json described(const VerdictStrip* strip) {
  if (strip == nullptr) return nullptr;
  const auto texts = [](const std::vector<VerdictItem>& items) {
    Json json = Json::array();
    for (const VerdictItem& item : items) json.push_back((item.topic.empty() ? "" : item.topic + " ") + item.text);
    return json;
  };
  return {
      {"decides", name_of(strip->decides)}, {"headline", strip->headline.text},
      {"held_bytes", strip->held.count},    {"holders", texts(strip->holders)},
      {"others", texts(strip->others)},     {"setting", strip->offer ? Json(strip->offer->item.text) : Json(nullptr)}};
}

Json described(const Tables& tables, const FlamePane& pane) {
  Json json = Json::array();
  const std::span<const FlameNode> flame = pane.first_nodes();
  for (std::size_t n = 1; n < flame.size(); ++n) {
    const FlameNode* const above = pane.by_layer() ? &flame[flame[n].parent] : nullptr;
    json.push_back(
        {{"name", FlamePane::name_of(tables, flame[n], above)}, {"depth", flame[n].depth}, {"bytes", flame[n].bytes}});
  }
  return json;
}

}  // namespace

Viewer::Viewer(Window& window, Settings settings, Bytes memory_limit)
    : window_(window),
      settings_(std::move(settings)),
      memory_limit_(memory_limit),
      theme_(settings_.dark ? dark_theme() : light_theme()) {
  make_commands();
  set_text_size(settings_.text_size);
}

void Viewer::open(const std::filesystem::path& file) {
  open(std::make_unique<Source>(
      file, [] { Window::wake(); }, memory_limit_));
}

void Viewer::open_ranks(std::vector<std::filesystem::path> files) {
  open(files.front());
  ranks_ = std::make_unique<const Ranks>(
      std::move(files), [] { Window::wake(); }, memory_limit_);
  show_tab("ranks");
}

void Viewer::open_prediction(std::unique_ptr<const PredictionJob> prediction) {
  open(prediction->recordings().back().file);
  prediction_ = std::move(prediction);
  show_tab("prediction");
}

void Viewer::choose(const RankChoice& choice) {
  if (choice.show && ranks_->files()[*choice.show] != source_->path()) open(ranks_->files()[*choice.show]);
  if (!choice.compare) return;
  compare_with(ranks_->files()[*choice.compare]);
  show_tab("compare");
}

void Viewer::close() {
  source_.reset();
  forget_document();
}

void Viewer::forget_document() {
  // What panes hold of the last trace means nothing in the next.
  panes_ = std::make_unique<Panes>();
  heap_ = HeapAt();
  heap_rounding_.reset();
  live_ = {};
  live_known_.reset();
  document_ = std::make_shared<const Document>();
  selection_ = Selection();
  overlays_.clear();
  wanted_instant_.reset();
  cursor_follows_ = true;
  judged_events_ = 0;
  axis_of_.reset();
  followed_heap_ = HeapId::none;
}

void Viewer::open(std::unique_ptr<Source> source, bool is_sample) {
  close();
  source_ = std::move(source);  // what is read already comes with the next frame
  if (is_sample) return;
  const std::string name = std::filesystem::absolute(source_->path()).string();
  std::erase(settings_.recent, name);
  settings_.recent.insert(settings_.recent.begin(), name);
  if (settings_.recent.size() > 10) settings_.recent.resize(10);
}

void Viewer::set_dark(bool dark) {
  settings_.dark = dark;
  theme_ = dark ? dark_theme() : light_theme();
}

void Viewer::set_text_size(float factor) {
  settings_.text_size = std::clamp(factor, least_text_size, most_text_size);
  window_.set_zoom(settings_.text_size);
}

void Viewer::maximise(std::string_view pane) {
  maximised_ = pane;
  if (std::ranges::find(tab_names, pane) != tab_names.end()) tab_ = pane;
}

void Viewer::show_tab(std::string_view name) {
  tab_ = name;
  if (!maximised_.empty()) maximised_ = std::string(name);
}

SourceStatus Viewer::status() const { return source_ ? source_->status() : SourceStatus{.stage = Stage::complete}; }

bool Viewer::is_idle() const {
  const Stage stage = status().stage;
  return stage == Stage::failed || (stage == Stage::complete && !busy_ && !wanted_instant_);
}

bool Viewer::go_to(std::string_view instant) {
  const HeapSeries* const series = document_->series(selection_.heap);
  std::uint32_t event = 0;
  if (instant == "peak" || instant == "reserved-peak") {
    if (series != nullptr) event = instant == "peak" ? series->peak_live_event : series->peak_reserved_event;
  } else if (instant == "end") {
    event = document_->event_count();
  } else if (instant == "oom") {
    if (!document_->columns.failure.empty()) event = document_->columns.other[document_->columns.failure[0]].at + 1;
  } else if (instant.starts_with("event:")) {
    const auto value = number(instant.substr(6));
    if (!value || *value < 0) return false;
    event = static_cast<std::uint32_t>(std::min(*value, static_cast<double>(document_->event_count())));
  } else {
    const bool share = instant.ends_with('%');
    if (share || instant.ends_with('s')) instant.remove_suffix(1);
    const auto value = number(instant);
    if (!value) return false;
    const auto span = static_cast<double>((document_->last_time() - document_->first_time()).count());
    const double ns = share ? span * *value / 100 : *value * 1e9;
    event = document_->events_until(document_->first_time() +
                                    Nanoseconds{static_cast<std::int64_t>(std::clamp(ns, 0.0, span))});
  }
  cursor_follows_ = false;
  if (source_ && !document_->complete) {
    wanted_instant_ = instant;  // it may lie in what is not read, or not here, yet
    return true;
  }
  selection_.cursor = event;
  return true;
}

void Viewer::follow_document() {
  if (!source_ || paused_) return;
  const auto latest = source_->document();
  if (latest == document_) return;
  const bool first = document_->empty() && !latest->empty();
  const bool moved = !first && selection_.view != followed_view_;
  if (!first && latest->begun_anew != document_->begun_anew) {
    forget_document();  // another trace, at the same place
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

/// What the view was moved by without a pause is one step back.
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

/// Keeps of what is shown what means the same in `next`.
void Viewer::renumber(const Document& next) {
  if (document_->empty()) return;
  auto panes = std::make_unique<Panes>();
  panes->compare.set_other(panes_->compare.other());
  panes_ = std::move(panes);
  overlays_.clear();
  heap_ = HeapAt();
  if (selection_.cursor != 0)
    selection_.cursor = next.events_until(document_->time(std::min(selection_.cursor, document_->event_count()) - 1));
  selection_.renumber();
}

void Viewer::update_judged(double now) {
  if (!document_->complete) return;
  const std::uint32_t events = document_->event_count();
  if (events != std::exchange(grown_to_, events)) grown_at_ = now;
  const std::optional<std::uint32_t> judged = judged_events_ == 0 ? std::nullopt : std::optional(judged_events_);
  if (is_due(judged, events, status().followed, now - grown_at_)) judged_events_ = events;
}

void Viewer::update_classification() {
  const auto file = source_ ? source_->file() : nullptr;
  if (!file || !document_->complete || document_->empty() || !can_be_classified(*document_)) return;
  panes_->classification.request(
      judged_events_,
      [file, limit = memory_limit_](const Progress& progress) { return classify_file(file, limit, progress); }, false);
  if (!panes_->classification.is_current()) busy_ = true;
}

/// The heap at the cursor. How much rounding takes of it comes when that is found.
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
  if (same_heap && live_known_ == known) return;
  if (!same_heap) heap_ = heap_at(*document_, selection_.heap, selection_.cursor, rounding.get());
  heap_version_ = document_->event_count();
  heap_rounding_ = rounding;
  live_known_ = known;
  live_ = known ? live_by_category(heap_.blocks, *known) : LiveByCategory{};
}

void Viewer::step(int by) {
  // To the next event of this heap's memory; others change nothing that is on screen.
  const auto end = static_cast<std::int64_t>(document_->event_count());
  std::int64_t at = selection_.cursor;
  for (int tries = 0; tries < 1'000'000; ++tries) {
    at += by;
    if (at < 1 || at > end) return;
    const auto event = static_cast<std::uint32_t>(at - 1);
    const auto id = document_->allocation_of(event);
    if (!id || document_->heap_of(document_->origin_of(*id)) == selection_.heap) break;
  }
  selection_.cursor = static_cast<std::uint32_t>(at);
  if (const auto id = document_->allocation_of(selection_.cursor - 1)) selection_.select(*document_, *id);
  const Nanoseconds time = document_->time(selection_.cursor - 1);
  if (time < selection_.view.begin || time > selection_.view.end) {
    const Nanoseconds half = selection_.view.length() / 2;
    selection_.look_at(*document_, {time - half, time + half});
  }
}

void Viewer::step_mark(int by) {
  const ColumnView<std::uint32_t>& notable = document_->columns.notable;
  if (notable.empty()) return;
  const std::uint32_t here = document_->notables_before(selection_.cursor);
  const auto instant = [&](std::int64_t row) {
    return document_->columns.other[notable[static_cast<std::size_t>(row)]].at + 1;
  };
  std::int64_t row = by > 0 ? here : static_cast<std::int64_t>(here) - 1;
  if (by < 0 && row >= 0 && instant(row) == selection_.cursor) --row;
  if (row < 0 || row >= static_cast<std::int64_t>(notable.size())) return;
  selection_.cursor = instant(row);
}

void Viewer::select_largest() {
  const auto largest = std::ranges::max_element(heap_.blocks, {}, [&](const HeldBlock& block) {
    return document_->stack_of(block.allocation) == StackId::none ? 0_B : block.size;
  });
  if (largest != heap_.blocks.end()) selection_.select(*document_, largest->allocation);
}

void Viewer::begin_tour() {
  if (!source_) {
    const std::filesystem::path sample = sample_trace();
    if (sample.empty()) return;
    open(std::make_unique<Source>(sample, [] { Window::wake(); }), true);
  }
  maximised_.clear();
  tour_step_ = 0;
}

void Viewer::focus() {
  const TimeRange before = selection_.view;
  if (selection_.marked) {
    selection_.look_at(*document_, *selection_.marked);
  } else if (selection_.allocation) {
    const std::uint32_t requested = document_->requested(*selection_.allocation);
    const Nanoseconds from = document_->time(document_->begin_of(*selection_.allocation));
    const Nanoseconds to = requested == never ? document_->last_time() : document_->time(requested);
    const Nanoseconds margin = (to - from) / 5 + Nanoseconds{10};
    selection_.look_at(*document_, {from - margin, to + margin});
  } else {
    selection_.look_at_all(*document_);
  }
  if (before == selection_.view) selection_.look_at_all(*document_);  // twice: all of it
  selection_.remember();
}

void Viewer::switch_colours() {
  const bool was_category = selection_.split_by(knows_categories()) == SplitBy::category;
  const bool to_category = !was_category && knows_categories();
  selection_.split = to_category ? SplitBy::category : SplitBy::stack;
  selection_.colour = to_category ? MapColour::category : MapColour::stack;
}

/// Steps are found beside the window; of a trace without any the axis counts time.
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
  if (scale->by() == AxisBy::time && panes_->steps.is_current()) axis_ = AxisBy::time;
}

void Viewer::make_commands() {
  const auto add = [&](std::string name, std::string shortcut, int key, int modifiers, std::function<void()> run) {
    commands_.add({.name = std::move(name),
                   .shortcut = std::move(shortcut),
                   .run = std::move(run),
                   .key = key,
                   .modifiers = modifiers});
  };
  const auto add_character = [&](std::string name, char character, std::function<void()> run) {
    commands_.add({.name = std::move(name),
                   .shortcut = std::string(1, character),
                   .run = std::move(run),
                   .character = static_cast<unsigned>(character)});
  };
  const auto middle = [this] {
    return selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  };
  add("Zoom in", "W  +", 0, 0, [this, middle] { selection_.zoom(*document_, 0.75, middle()); });
  add("Zoom out", "S  -", 0, 0, [this, middle] { selection_.zoom(*document_, 1 / 0.75, middle()); });
  add_character("Zoom in a step", '+', [this, middle] { selection_.zoom(*document_, 0.75, middle()); });
  add_character("Zoom out a step", '-', [this, middle] { selection_.zoom(*document_, 1 / 0.75, middle()); });
  add("Earlier", "A", 0, 0, [this] { selection_.pan(*document_, -0.2); });
  add("Later", "D", 0, 0, [this] { selection_.pan(*document_, 0.2); });
  add("Look at what is selected or marked; again: all", "F", GLFW_KEY_F, 0, [this] { focus(); });
  add("Look at all of the trace", "0", GLFW_KEY_0, 0, [this] {
    selection_.look_at_all(*document_);
    selection_.remember();
  });
  add("Look at all", "Home", GLFW_KEY_HOME, 0, [this] { selection_.look_at_all(*document_); });
  add("Mark the view, or the life of what is selected", "M", GLFW_KEY_M, 0, [this] {
    selection_.marked = selection_.view;
    if (!selection_.allocation) return;
    const std::uint32_t requested = document_->requested(*selection_.allocation);
    selection_.marked = TimeRange{document_->time(document_->begin_of(*selection_.allocation)),
                                  requested == never ? document_->last_time() : document_->time(requested)};
  });
  add_character("Previous event", ',', [this] { step(-1); });
  add_character("Next event", '.', [this] { step(1); });
  add_character("Previous mark or failure", '[', [this] { step_mark(-1); });
  add_character("Next mark or failure", ']', [this] { step_mark(1); });
  add_character("Search stacks and addresses", '/', [this] {
    focus_search_ = true;
    show_tab("allocations");
  });
  add_character("Next match of the search", 'n', [this] { match_step_ = 1; });
  add_character("Previous match of the search", 'N', [this] { match_step_ = -1; });
  add("Go to the peak of live bytes", "P", GLFW_KEY_P, 0, [this] {
    go_to("peak");
    selection_.remember();
  });
  add("Go to the peak of reserved bytes", "Shift+P", GLFW_KEY_P, GLFW_MOD_SHIFT, [this] {
    go_to("reserved-peak");
    selection_.remember();
  });
  add("Go to the first failure", "O", GLFW_KEY_O, 0, [this] {
    go_to("oom");
    show_tab("oom");
    selection_.remember();
  });
  add("Back", "Alt+Left", GLFW_KEY_LEFT, GLFW_MOD_ALT, [this] { selection_.go_back(); });
  add("Forward", "Alt+Right", GLFW_KEY_RIGHT, GLFW_MOD_ALT, [this] { selection_.go_forward(); });
  add("Undo the last zoom or jump", "Ctrl+Z", GLFW_KEY_Z, GLFW_MOD_CONTROL, [this] { selection_.go_back(); });
  add("Clear the selection", "Esc", GLFW_KEY_ESCAPE, 0, [this] {
    if (help_ || tour_step_ >= 0) {
      help_ = false;
      tour_step_ = -1;
    } else if (!selection_.search.empty()) {
      selection_.search.clear();
    } else if (!maximised_.empty()) {
      maximised_.clear();
    } else {
      selection_.clear();
    }
  });
  constexpr std::size_t digits = 9;
  for (std::size_t i = 0; i < digits; ++i)
    add("Show " + std::string(tab_names.at(i)), std::to_string(i + 1), GLFW_KEY_1 + static_cast<int>(i), 0,
        [this, i] { show_tab(tab_names.at(i)); });
  add("Show ranks", "R", GLFW_KEY_R, 0, [this] {
    if (ranks_) show_tab("ranks");
  });
  for (const std::string_view name : fixed_names)
    add("Show only the " + std::string(name), "", 0, 0, [this, name] { maximise(name); });
  add("Show all panes", "Esc", 0, 0, [this] { maximise(""); });
  add("Category or stack, in the timeline and in all pictures", "C", GLFW_KEY_C, 0, [this] { switch_colours(); });
  for (std::size_t i = 0; i < colour_words.size(); ++i)
    add(std::string("Colour allocations by ") + colour_words.at(i), "", 0, 0,
        [this, i] { selection_.colour = static_cast<MapColour>(i); });
  for (std::size_t i = 0; i < split_words.size(); ++i) {
    const bool none = static_cast<SplitBy>(i) == SplitBy::nothing;
    add(none ? "Show live and reserved bytes" : std::string("Split live bytes by ") + split_words.at(i), "", 0, 0,
        [this, i] { selection_.split = static_cast<SplitBy>(i); });
  }
  add("Replay other policies", "", 0, 0, [this] {
    show_tab("policies");
    panes_->policies.run();
  });
  add("Show or hide the verdict above all panes", "V", GLFW_KEY_V, 0,
      [this] { settings_.verdict = !settings_.verdict; });
  add("Keep this instant, to compare others with it", "K", GLFW_KEY_K, 0, [this] {
    panes_->compare.keep(selection_.cursor);
    show_tab("compare");
  });
  add("Pause or go on following the file", "Space", GLFW_KEY_SPACE, 0, [this] { paused_ = !paused_; });
  add("Time, events or steps on the axis", "T", GLFW_KEY_T, 0,
      [this] { axis_ = static_cast<AxisBy>((static_cast<std::size_t>(axis_) + 1) % axis_count); });
  add("Light or dark", "L", GLFW_KEY_L, 0, [this] { set_dark(!settings_.dark); });
  const auto larger = [this] { set_text_size(settings_.text_size * 1.1F); };
  const auto smaller = [this] { set_text_size(settings_.text_size / 1.1F); };
  add("Larger text", "Ctrl +", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL, larger);
  add("Larger text", "", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, larger);
  add("Larger text", "", GLFW_KEY_KP_ADD, GLFW_MOD_CONTROL, larger);
  add("Smaller text", "Ctrl -", GLFW_KEY_MINUS, GLFW_MOD_CONTROL, smaller);
  add("Smaller text", "", GLFW_KEY_KP_SUBTRACT, GLFW_MOD_CONTROL, smaller);
  add("Text as large as the screen says", "Ctrl+0", GLFW_KEY_0, GLFW_MOD_CONTROL, [this] { set_text_size(1); });
  add("Open a file", "Ctrl+O", GLFW_KEY_O, GLFW_MOD_CONTROL, [this] { begin_to_open(); });
  add("Commands", "Ctrl+Shift+P", GLFW_KEY_P, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, [this] { commands_.open_palette(); });
  add_character("Help: all keys", '?', [this] { help_ = !help_; });
  add("Tour", "", 0, 0, [this] { begin_tour(); });
  add("Quit", "Ctrl+Q", GLFW_KEY_Q, GLFW_MOD_CONTROL, [this] { quit_ = true; });
}

void Viewer::handle_keys(double seconds) {
  commands_.handle(window_, open_dialog_.is_open());
  if (ImGui::GetIO().WantTextInput || document_->empty()) return;
  const auto held = [&](int key, int other) { return window_.is_held_alone(key) || window_.is_held_alone(other); };
  const Nanoseconds anchor = selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  // A key that is held zooms five times in a second, and moves one and a half screens.
  const double t = std::min(seconds, 0.1);
  if (held(GLFW_KEY_W, GLFW_KEY_W)) selection_.zoom(*document_, std::pow(5.0, -t * 2), anchor);
  if (held(GLFW_KEY_S, GLFW_KEY_S)) selection_.zoom(*document_, std::pow(5.0, t * 2), anchor);
  if (held(GLFW_KEY_A, GLFW_KEY_LEFT)) selection_.pan(*document_, -1.5 * t);
  if (held(GLFW_KEY_D, GLFW_KEY_RIGHT)) selection_.pan(*document_, 1.5 * t);
}

Json Viewer::state() {
  static constexpr std::array<const char*, 4> stages{"importing", "reading", "complete", "failed"};
  const SourceStatus status = this->status();
  Json places = Json::object();
  for (const auto& [name, place] : places_) places[name] = {place.x, place.y, place.z, place.w};
  const auto range = [](const TimeRange& r) { return Json{r.begin.count(), r.end.count()}; };
  Json state{
      {"stage", stages.at(static_cast<std::size_t>(status.stage))},
      {"error", status.error ? Json(status.error->message()) : Json(nullptr)},
      {"followed", status.followed},
      {"idle", is_idle()},
      {"frames", frames_},
      {"keys", window_.key_count()},
      {"events", document_->event_count()},
      {"allocations", document_->allocation_count()},
      {"heap", index(selection_.heap)},
      {"axis", axis_words.at(static_cast<std::size_t>(selection_.axis.by()))},
      {"bands", Json::array()},
      {"view", range(selection_.view)},
      {"span", {document_->first_time().count(), document_->last_time().count()}},
      {"cursor", selection_.cursor},
      {"marked", selection_.marked ? range(*selection_.marked) : Json(nullptr)},
      {"allocation", selection_.allocation ? Json(*selection_.allocation) : Json(nullptr)},
      {"stack", selection_.stack ? Json(index(*selection_.stack)) : Json(nullptr)},
      {"hovered_allocation", selection_.hovered_allocation ? Json(*selection_.hovered_allocation) : Json(nullptr)},
      {"own_line",
       selection_.stack ? Json(own_line(stack_lines(*document_->tables, *selection_.stack))) : Json(nullptr)},
      {"category", selection_.category ? Json(name_of(*selection_.category)) : Json(nullptr)},
      {"categories", nullptr},
      {"split", split_words.at(static_cast<std::size_t>(selection_.split_by(knows_categories())))},
      {"colour", colour_words.at(static_cast<std::size_t>(selection_.colour_by(knows_categories())))},
      {"search", selection_.search},
      {"matches", panes_->allocations.matches()},
      {"listed", panes_->allocations.listed()},
      {"clipboard", clipboard()},
      {"leaks", panes_->verdicts.leaks()},
      {"welcome", document_->empty() ? Json(welcome().what) : Json(nullptr)},
      {"compared", compared(panes_->compare)},
      {"ranks", Json::array()},
      {"prediction", nullptr},
      {"other", panes_->compare.other()},
      {"file", source_ ? Json(source_->path().string()) : Json(nullptr)},
      {"tour", tour_step_},
      {"tab", tab_},
      {"maximised", maximised_},
      {"text_size", settings_.text_size},
      {"opening", open_dialog_.is_open()},
      {"help", help_},
      {"palette", commands_.palette_is_open()},
      {"dark", settings_.dark},
      {"overlays", Json::array()},
      {"live_bytes", heap_.live.count},
      {"reserved_bytes", heap_.reserved.count},
      {"rounding_bytes", heap_.rounding ? Json(heap_.rounding->count) : Json(nullptr)},
      {"places", places}};
  for (std::size_t i = 0; ranks_ && i < ranks_->files().size(); ++i) {
    const auto series = ranks_->series(i);
    state["ranks"].push_back({{"name", ranks_->name(i)},
                              {"file", ranks_->files()[i].string()},
                              {"peak_reserved_bytes", series ? Json(series->peak_reserved.count) : Json(nullptr)},
                              {"problem", series ? Json(series->problem) : Json(nullptr)}});
  }
  if (const auto view = prediction_ ? prediction_->result() : nullptr) {
    state["prediction"] = {{"problem", view->problem}, {"predicted", Json::array()}};
    for (const GrowthChart::Predicted& p : view->chart.predicted)
      if (p.asked)
        state["prediction"]["predicted"].push_back(
            {{"value", p.at}, {"peak_live_bytes", p.live.count}, {"peak_reserved_bytes", p.reserved.count}});
  }
  state["verdict"] = described(panes_->verdict.shown());
  for (const MarkBand& band : panes_->timeline.shown_bands())
    state["bands"].push_back({{"name", (*document_->tables)[band.name]}, {"count", band.count}});
  state["groups"] = Json::array();
  if (const StackedSeries* const groups = panes_->timeline.shown_groups())
    for (const StackedSeries::Group& group : groups->groups) state["groups"].push_back({{"label", group.label}});
  state["flame"] = described(*document_->tables, panes_->flame);
  for (const Overlay& overlay : overlays_) state["overlays"].push_back(overlay.name);
  if (selection_.allocation && *selection_.allocation < document_->allocation_count())
    state["selected"] = described(*document_, live_known_.get(), *selection_.allocation);
  if (knows_categories()) {
    state["categories"] = Json::object();
    for (std::size_t c = 0; c < live_.size(); ++c)
      if (live_.at(c).count != 0) state["categories"][name_of(static_cast<Category>(c))] = live_.at(c).bytes.count;
  }
  return state;
}

}  // namespace memreel::viewer
