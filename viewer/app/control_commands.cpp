// SPDX-License-Identifier: Apache-2.0
// Commands for the controls of the panes: what can be clicked can be typed.
#include <algorithm>
#include <array>

#include "viewer/app/viewer.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

/// A control and where to find it.
struct PaneControl {
  const char* name = "";
  std::string_view tab;  // empty: not in a list
  const char* place = "";
  const char* label = "";  // empty: the place after its first '/'
  const char* hint = "";
};

constexpr std::array<PaneControl, 18> controls_of_panes{{
    {"Choose the device or heap\u2026", "", "device"},
    {"Choose the rank\u2026", "", "rank list"},
    {"Choose how live bytes are split\u2026", "", "split"},
    {"Choose the colours of allocations\u2026", "", "colour"},
    {"Choose the order of the heap\u2026", "", "heap/order"},
    {"Choose a category to filter by\u2026", "", "category"},
    {"Choose a least size to filter by\u2026", "", "size"},
    {"Show all addresses of the map", "", "map/all addresses"},
    {"Select what keeps the largest free block, before it", "", "heap/pin before"},
    {"Select what keeps the largest free block, after it", "", "heap/pin after"},
    {"Copy the stack of the selection", "", "inspector/copy stack", "copy"},
    {"Show or fold wrapper frames of the stack", "", "inspector/fold"},
    {"Inspector: stack", "", "inspector/stack"},
    {"Inspector: details", "", "inspector/details"},
    {"Inspector: allocation", "", "inspector/allocation"},
    {"Inspector: segment", "", "inspector/segment"},
    {"Go to the begin of the selected allocation", "", "inspector/begin"},
    {"Go to the end of the selected allocation", "", "inspector/end"},
}};
constexpr std::array<PaneControl, 28> controls_of_lists{{
    {"Show the lifetime of the selected allocation", "", "inspector/lifetime", "show lifetime"},
    {"Choose another list\u2026", "", "tab/more"},
    {"Stacks: live at the cursor", "stacks", "weigh/live at the cursor"},
    {"Stacks: at the peak", "stacks", "weigh/at the peak*"},
    {"Stacks: allocated", "stacks", "weigh/allocated*"},
    {"Stacks: leaked", "stacks", "weigh/leaked"},
    {"Stacks: kept of the range", "stacks", "weigh/kept of the range"},
    {"Stacks: summed up", "stacks", "weigh/summed up*"},
    {"Flame graph: live at the cursor", "flame", "weigh/live at the cursor"},
    {"Flame graph: at the peak", "flame", "weigh/at the peak*"},
    {"Flame graph: allocated", "flame", "weigh/allocated*"},
    {"Flame graph: leaked", "flame", "weigh/leaked"},
    {"Flame graph: kept of the range", "flame", "weigh/kept of the range"},
    {"Flame graph: summed up", "flame", "weigh/summed up*"},
    {"Flame graph: by stack", "flame", "flame/by stack"},
    {"Flame graph: by layer", "flame", "flame/by layer"},
    {"Flame graph: bottom-up", "flame", "flame/bottom-up"},
    {"Flame graph: wrappers", "flame", "flame/wrappers", "",
     "Frames that only forward a call: decorators, hooks, nn.Module"},
    {"Go to where it is most fragmented", "fragmentation", "fragmentation/go there"},
    {"Type policies to replay\u2026", "policies", "policies/specs"},
    {"Compare with another trace\u2026", "compare", "compare/file"},
    {"Compare instants of this trace", "compare", "compare/instants", "back to instants"},
    {"Compare by time", "compare", "compare/by time"},
    {"Compare by step", "compare", "compare/by step"},
    {"Compare at the peaks", "compare", "compare/at the peaks"},
    {"Compare at the cursor", "compare", "compare/at the cursor"},
    {"Compare by stack", "compare", "compare/by stack"},
    {"Compare by category", "compare", "compare/by category"},
}};
constexpr std::array<PaneControl, 5> more_controls{{
    {"Compare by layer", "compare", "compare/by layer"},
    {"Heaps: same scale", "heaps", "heaps/same scale"},
    {"Heaps: own scales", "heaps", "heaps/own scales"},
    {"Cancel what is being computed", "", "*/cancel", "Cancel"},
    {"Resume what was cancelled", "", "*/go on", "Resume"},
}};
constexpr std::array<const char*, 5> offered_sizes{"", "64KiB", "1MiB", "20MiB", "256MiB"};

}  // namespace

/// Why a control is not there, as far as that is known before its pane is drawn.
std::string Viewer::why_no_control(std::string_view tab, std::string_view place) {
  const auto unless = [](bool there, const char* why) { return there ? std::string() : std::string(why); };
  if (tab == "heaps") return unless(has_tab(tab), "there is only one heap");
  if (place == "rank list") return unless(ranks_ != nullptr, "only one recording is open");
  if (place == "category" || place == "compare/by stack" || place == "compare/by category" ||
      place == "compare/by layer")
    return unless(knows_categories(), "no categories are known");
  if (place == "flame/by stack" || place == "flame/by layer")
    return unless(live_known_ && live_known_->knows_layers, "no layers are known");
  if (place == "inspector/copy stack" || place == "inspector/fold")
    return unless(selection_.stack.has_value(), "nothing is selected that has a stack");
  if (place == "inspector/begin" || place == "inspector/end" || place == "inspector/lifetime" ||
      place == "inspector/stack" || place == "inspector/details")
    return unless(selection_.allocation.has_value(), "no allocation is selected");
  if (place == "inspector/allocation" || place == "inspector/segment")
    return unless(is_on_screen(place), "no allocation of a segment is selected");
  if (place == "tab/more") return unless(is_on_screen(place), "all have their place");
  if (place == "*/cancel") return unless(is_on_screen(place), "nothing is being computed");
  if (place == "*/go on") return unless(is_on_screen(place), "nothing was cancelled");
  if (place == "heap/pin before") return unless(heap_.pin_before.has_value(), "nothing keeps it");
  if (place == "heap/pin after") return unless(heap_.pin_after.has_value(), "nothing keeps it");
  if (place == "weigh/kept of the range") return unless(selection_.marked.has_value(), "no range is marked");
  if (place.starts_with("weigh/summed up"))
    return unless(!document_->trace->folded.empty(), "the recording has no sums of older events");
  if (place == "compare/instants" || place == "compare/at the peaks" || place == "compare/at the cursor")
    return unless(!panes_->compare.other().empty(), "no other trace is open to compare with");
  return {};
}

bool Viewer::is_on_screen(std::string_view place) const {
  return std::ranges::any_of(focus_.stops(), [&](const Focusable& stop) { return is_at(place, stop.name); });
}

/// Shows a control and activates it.
void Viewer::act_on(std::string_view tab, std::string_view place) {
  if (!tab.empty())
    layout_.show_tab(tab);
  else if (!is_on_screen(place))
    layout_.maximise("");
  focus_.act_on(std::string(place));
}

void Viewer::make_control_commands() {
  const auto add = [this](const PaneControl& control) {
    commands_.add({.name = control.name,
                   .shortcut = {},
                   .run = [this, control] { act_on(control.tab, control.place); },
                   .place = control.place,
                   .label = control.label,
                   .hint = control.hint,
                   .why_not = [this, control] { return why_no_control(control.tab, control.place); }});
  };
  for (const PaneControl& control : controls_of_panes) add(control);
  for (const PaneControl& control : controls_of_lists) add(control);
  for (const PaneControl& control : more_controls) add(control);
  const auto add_in_dialog = [this](const char* name, const char* place, const char* label,
                                    std::function<void()> before) -> Command& {
    return commands_.add({.name = name,
                          .shortcut = {},
                          .run =
                              [this, place, before = std::move(before)] {
                                if (before) before();
                                focus_.act_on(place);
                              },
                          .place = place,
                          .label = label,
                          .needs_trace = false});
  };
  const auto opens = [this] {
    if (!open_dialog_.is_open()) begin_to_open();
  };
  add_in_dialog("Open a file: list all, whatever their name", "open/all files", "", opens);
  add_in_dialog("Open all recordings of a folder as a job", "open/job", "", opens);
  const auto why_no_tour = [this] { return tour_.is_on() ? "" : "the tour is not on"; };
  add_in_dialog("Tour: next", "tour/next", "Next", {}).why_not = why_no_tour;
  add_in_dialog("Tour: skip the rest", "tour/skip", "Skip", {}).why_not = why_no_tour;
  const auto add_filter = [this](std::string name, std::optional<Category> category) {
    commands_.add({.name = std::move(name),
                   .shortcut = {},
                   .run = [this, category] { selection_.category = category; },
                   .why_not = [this, category]() -> std::string {
                     if (!knows_categories()) return "no categories are known";
                     return selection_.category == category ? "they are shown already" : "";
                   }});
  };
  add_filter("Filter: all categories", std::nullopt);
  for (const CategoryStyle& style : category_styles())
    add_filter("Filter: only " + std::string(words_of(style.category)), style.category);
  for (const char* const size : offered_sizes)
    commands_.add({.name = *size == 0 ? std::string("Filter: any size") : "Filter: at least " + std::string(size),
                   .shortcut = {},
                   .run = [this, size] { selection_.search = with_least(selection_.search, size); },
                   .why_not =
                       [this, size] {
                         return with_least(selection_.search, size) == selection_.search ? "it is set already" : "";
                       }});
}

/// What dragging the lines between panes does.
void Viewer::make_size_commands() {
  struct Part {
    const char* name;
    float Settings::*share;
  };
  constexpr std::array<Part, 4> parts{{{"timeline", &Settings::timeline_share},
                                       {"map", &Settings::map_share},
                                       {"inspector", &Settings::inspector_share},
                                       {"lists", &Settings::bottom_share}}};
  constexpr float step = 0.04F;
  for (const Part& part : parts)
    for (const bool grows : {true, false}) {
      const auto wanted = [this, part, grows] {
        return std::clamp(settings_.*part.share + (grows ? step : -step), least_share, most_share);
      };
      commands_.add({.name = std::string(grows ? "Larger " : "Smaller ") + part.name,
                     .shortcut = {},
                     .run = [this, part, wanted] { settings_.*part.share = wanted(); },
                     .why_not = [this, part, wanted, grows]() -> std::string {
                       if (!layout_.maximised().empty()) return "one pane fills the window";
                       if (wanted() != settings_.*part.share) return "";
                       return grows ? "it is as large as it gets" : "it is as small as it gets";
                     }});
    }
}

/// Commands for what is on screen now, and for the heaps, ranks and recent files.
std::vector<Command> Viewer::passing_commands() {
  std::vector<Command> commands;
  const auto add = [&](std::string name, std::function<void()> run) -> Command& {
    return commands.emplace_back(Command{.name = std::move(name), .shortcut = {}, .run = std::move(run)});
  };
  for (const HeapSeries& series : document_->heaps)
    add("Show the heap " + heap_label(*document_->tables, series.heap), [this, heap = series.heap] {
      selection_.heap = heap;
      selection_.clear();
    }).why_not = [this, heap = series.heap] { return selection_.heap == heap ? "it is shown already" : ""; };
  for (std::size_t i = 0; ranks_ && i < ranks_->files().size(); ++i) {
    const bool is_shown = source_ && ranks_->files()[i] == source_->path();
    Command& shows = add("Show rank " + ranks_->name(i), [this, i] { choice_.show = i; });
    shows.why_not = [this, is_shown] { return is_shown && !shows_job() ? "it is shown already" : ""; };
    shows.needs_trace = false;
    add("Compare with rank " + ranks_->name(i), [this, i] { choice_.compare = i; }).why_not = [is_shown] {
      return is_shown ? "it is shown already" : "";
    };
  }
  for (const std::string& file : settings_.recent)
    add("Open " + file, [this, file] { chosen_.file = file; }).needs_trace = false;
  const VerdictStrip* const strip = panes_->verdict.shown();
  const auto words_of_item = [&](std::string_view place) -> std::string {
    if (strip == nullptr || !place.starts_with("verdict/")) return {};
    const std::string_view name = place.substr(std::string_view("verdict/").size());
    for (const auto* const items : {&strip->holders, &strip->others})
      for (const VerdictItem& item : *items)
        if (item.name == name) return "Verdict: " + item.topic + (item.topic.empty() ? "" : " ") + item.text;
    return {};
  };
  for (const Focusable& stop : focus_.stops()) {
    if (stop.rank != 0 || stop.kind == FocusKind::field || commands_.has_button(stop.name)) continue;
    const std::size_t slash = stop.name.find('/');
    const std::string before = stop.name.substr(0, slash),
                      after = slash == std::string::npos ? std::string() : stop.name.substr(slash + 1);
    std::string name = words_of_item(stop.name);
    if (before == "value")
      name = "Copy the value: " + after;
    else if (stop.kind == FocusKind::list)
      name = "Copy from the list of " + stop.name + "\u2026";
    else if (stop.kind == FocusKind::header)
      name = "Sort " + before + " by " + after;
    else if (name.empty())
      name = label_of(stop.name);
    name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    if (stop.name == "flame") continue;  // a list without a menu
    Command& command = add(std::move(name), [this, place = stop.name, tab = std::string(is_tab(before) ? before : "")] {
      act_on(tab, place);
    });
    command.place = stop.name;
    command.needs_trace = false;
  }
  return commands;
}

}  // namespace memreel::viewer
