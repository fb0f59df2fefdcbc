// SPDX-License-Identifier: Apache-2.0
// What keys and the palette do, besides pressing the controls of panes.
#include <GLFW/glfw3.h>

#include <algorithm>
#include <tuple>

#include "formats/model/files.h"
#include "viewer/app/viewer.h"
#include "viewer/model/navigation.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {
namespace {

bool is_same(const Selection& a, const Selection& b) {
  const auto choice = [](const Selection& s) {
    return std::tie(s.heap, s.view, s.cursor, s.kept, s.marked, s.allocation, s.stack, s.category, s.colour, s.split,
                    s.search, s.space);
  };
  return choice(a) == choice(b);
}

/// Why a tab is not there.
std::string lack_of(std::string_view tab) {
  return tab == "pools"                       ? "the recording has no private pools"
         : tab == "holders"                   ? "nothing is known of who holds Python's objects"
         : tab == "heaps" || tab == "devices" ? "there is only one heap"
         : tab == "tags"                      ? "no tag was open in an allocation"
         : tab == "ranks"                     ? "only one recording is open"
                                              : "nothing is predicted: open recordings with their values";
}

/// Adds commands, of which most are a key and what it does.
class CommandKeys {
 public:
  CommandKeys(Commands& commands, Selection& selection) : commands_(commands), selection_(selection) {}

  using Run = std::function<void()>;
  using Change = std::function<void(Selection&)>;

  Command& add(std::string name, std::string shortcut, int key, int modifiers, Run run) {
    return commands_.add({.name = std::move(name),
                          .shortcut = std::move(shortcut),
                          .run = std::move(run),
                          .key = key,
                          .modifiers = modifiers});
  }
  Command& add(std::string name, char character, Run run) {
    return commands_.add({.name = std::move(name),
                          .shortcut = std::string(1, character),
                          .run = std::move(run),
                          .character = static_cast<unsigned>(character)});
  }
  /// What only changes the selection is tried on a copy to know whether it would; `otherwise` says why it would not.
  Command& change(std::string name, std::string shortcut, int key, int modifiers, std::string otherwise,
                  const Change& change) {
    Command& command = add(std::move(name), std::move(shortcut), key, modifiers,
                           [selection = &selection_, change] { change(*selection); });
    command.why_not = [selection = &selection_, change, otherwise = std::move(otherwise)] {
      Selection tried = *selection;
      change(tried);
      return is_same(tried, *selection) ? otherwise : std::string();
    };
    return command;
  }
  void change(std::string name, char character, std::string otherwise, const Change& change) {
    this->change(std::move(name), std::string(1, character), 0, 0, std::move(otherwise), change).character =
        static_cast<unsigned>(character);
  }

 private:
  Commands& commands_;
  Selection& selection_;
};

Command& anywhere(Command& command) {
  command.needs_trace = false;
  return command;
}

}  // namespace

void Viewer::make_commands() {
  make_zoom_commands();
  make_search_commands();
  make_goto_commands();
  make_tab_commands();
  make_job_commands();
  make_colour_commands();
  make_verdict_commands();
  make_axis_commands();
  make_control_commands();
  make_size_commands();
  make_text_commands();
  make_file_commands();
}

void Viewer::make_zoom_commands() {
  CommandKeys keys(commands_, selection_);
  const auto zoom = [this](double factor) {
    return [this, factor](Selection& s) {
      s.zoom(*document_, factor, s.hovered_time.value_or(s.view.begin + s.view.length() / 2));
    };
  };
  const std::string nearest = "it is as near as it gets", all = "everything is in view";
  keys.change("Zoom in", "W  +", 0, 0, nearest, zoom(0.75)).character = '+';
  keys.change("Zoom out", "S  -", 0, 0, all, zoom(1 / 0.75)).character = '-';
  keys.change("Earlier", "A", 0, 0, "the view begins with the trace",
              [this](Selection& s) { s.pan(*document_, -0.2); });
  keys.change("Later", "D", 0, 0, "the view ends with the trace", [this](Selection& s) { s.pan(*document_, 0.2); });
  keys.change("Zoom to the selection or marked range; again: all", "F", GLFW_KEY_F, 0, all,
              [this](Selection& s) { look_at_selected(*document_, s); });
  const auto look_at_all = [this](Selection& s) {
    s.look_at_all(*document_);
    s.remember();
  };
  keys.change("Show the whole trace", "0", GLFW_KEY_0, 0, all, look_at_all);
  keys.change("Show the whole trace", "Home", GLFW_KEY_HOME, 0, all, look_at_all);
  keys.change("Mark the view, or the lifetime of the selection", "M", GLFW_KEY_M, 0, "it is marked already",
              [this](Selection& s) { s.marked = s.allocation ? life_of(*document_, *s.allocation) : s.view; });
  keys.change("Mark nothing", "", 0, 0, "no range is marked", [](Selection& s) { s.marked.reset(); });
  keys.change("Previous event", ',', "this is the first", [this](Selection& s) { step_event(*document_, s, -1); });
  keys.change("Next event", '.', "this is the last", [this](Selection& s) { step_event(*document_, s, 1); });
  keys.change("Previous mark or failure", '[', "there is none before",
              [this](Selection& s) { step_mark(*document_, s, -1); });
  keys.change("Next mark or failure", ']', "there is none after",
              [this](Selection& s) { step_mark(*document_, s, 1); });
}

void Viewer::make_search_commands() {
  CommandKeys keys(commands_, selection_);
  keys.add("Search stacks and addresses", '/', [this] { focus_search_ = true; }).place = "search";
  keys.change("Clear the search", "", 0, 0, "nothing is searched for", [](Selection& s) { s.search.clear(); });
  const auto why_no_match = [this]() -> std::string {
    if (selection_.search.empty()) return "nothing is searched for";
    return panes_->allocations.matches() == 0 ? "nothing matches" : "";
  };
  keys.add("Next match of the search", 'n', [this] { match_step_ = 1; }).why_not = why_no_match;
  keys.add("Previous match of the search", 'N', [this] { match_step_ = -1; }).why_not = why_no_match;
}

void Viewer::make_goto_commands() {
  CommandKeys keys(commands_, selection_);
  const auto why_not_to = [this](std::string instant) {
    return [this, instant]() -> std::string {
      return instant_named(*document_, selection_.heap, instant) == selection_.cursor ? "the cursor is there already"
                                                                                      : "";
    };
  };
  Command& live_peak = keys.add("Go to the peak of live bytes", "P", GLFW_KEY_P, 0, [this] {
    go_to("peak");
    selection_.remember();
  });
  live_peak.why_not = why_not_to("peak");
  live_peak.place = "inspector/live peak";
  live_peak.label = "go to the live peak";
  Command& reserved_peak = keys.add("Go to the peak of reserved bytes", "Shift+P", GLFW_KEY_P, GLFW_MOD_SHIFT, [this] {
    go_to("reserved-peak");
    selection_.remember();
  });
  reserved_peak.why_not = why_not_to("reserved-peak");
  reserved_peak.place = "inspector/reserved peak";
  reserved_peak.label = "to the reserved peak";
  keys.add("Go to the first failure", "O", GLFW_KEY_O, 0,
           [this] {
             go_to("oom");
             layout_.show_tab("oom");
             selection_.remember();
           })
      .why_not = [this] { return document_->columns.failure.empty() ? why_no_failures(document_->trace.get()) : ""; };
  keys.add("Go to the end", "", 0, 0,
           [this] {
             go_to("end");
             selection_.remember();
           })
      .why_not = why_not_to("end");
  keys.change("Back", "Alt+Left", GLFW_KEY_LEFT, GLFW_MOD_ALT, "there is no earlier view",
              [](Selection& s) { s.go_back(); });
  keys.change("Forward", "Alt+Right", GLFW_KEY_RIGHT, GLFW_MOD_ALT, "there is no later view",
              [](Selection& s) { s.go_forward(); });
  keys.change("Undo the last zoom or jump", "Ctrl+Z", GLFW_KEY_Z, GLFW_MOD_CONTROL, "there is no earlier view",
              [](Selection& s) { s.go_back(); });
  keys.add("Clear the selection", "Esc", GLFW_KEY_ESCAPE, 0,
           [this] {
             if (dismiss_notice()) return;
             if (commands_.help_is_open() || tour_.is_on()) {
               commands_.close_help();
               tour_.end();
             } else if (!selection_.search.empty()) {
               selection_.search.clear();
             } else if (!layout_.maximised().empty() && !(shows_job() && !source_)) {
               layout_.maximise("");
             } else {
               selection_.clear();
             }
           })
      .why_not = [this]() -> std::string {
    Selection cleared = selection_;
    cleared.clear();
    const bool any = !notice_.empty() || opening_ || tour_.is_on() || commands_.help_is_open() ||
                     !selection_.search.empty() || !layout_.maximised().empty() || !is_same(cleared, selection_);
    return any ? "" : "nothing is selected";
  };
}

void Viewer::make_tab_commands() {
  CommandKeys keys(commands_, selection_);
  constexpr std::size_t digits = 9;
  for (std::size_t i = 0; i < tab_names.size(); ++i) {
    const std::string_view tab = tab_names.at(i);
    const int letter = tab == "heaps" ? GLFW_KEY_H : tab == "ranks" ? GLFW_KEY_R : 0;
    Command& command = keys.add("Show " + std::string(tab),
                                i < digits    ? std::to_string(i + 1)
                                : letter != 0 ? std::string(1, static_cast<char>(letter))
                                              : "",
                                i < digits ? GLFW_KEY_1 + static_cast<int>(i) : letter, 0, [this, tab] {
                                  if (has_tab(tab)) layout_.show_tab(tab);
                                });
    command.place = "tab/" + std::string(tab);
    command.why_not = [this, tab]() -> std::string {
      if (!has_tab(tab)) return lack_of(tab);
      return layout_.tab() == tab ? "it is shown already" : "";
    };
  }
  const auto add_alone = [&](std::string_view name) {
    Command& alone = keys.add("Show only the " + std::string(is_tab(name) ? "list of " : "") + std::string(name), "", 0,
                              0, [this, name] { layout_.maximise(name); });
    if (name == "verdict") {
      alone.place = "verdict/all";
      alone.hint = "Who holds the peak, leaks and fragmentation, alone in the window";
    }
    alone.why_not = [this, name]() -> std::string {
      if (is_tab(name) && !has_tab(name)) return lack_of(name);
      return layout_.maximised() == name ? "it is shown already" : "";
    };
  };
  for (const std::string_view name : fixed_names) add_alone(name);
  for (const std::string_view name : tab_names) add_alone(name);
}

void Viewer::make_job_commands() {
  CommandKeys keys(commands_, selection_);
  Command& whole = keys.add("Show the answer about the job", "J", GLFW_KEY_J, 0, [this] {
    if (ranks_) layout_.maximise("ranks");
  });
  whole.needs_trace = false;
  whole.place = "all ranks";
  whole.label = "Job";
  whole.why_not = [this]() -> std::string {
    if (!ranks_) return "only one recording is open";
    return shows_job() ? "it is shown already" : "";
  };
  Command& lists = keys.add("List or fold the ranks that are alike", "", 0, 0, [this] {
    layout_.show_tab("ranks");
    focus_.act_on("alike/*");
  });
  lists.needs_trace = false;
  lists.place = "alike/*";
  lists.label = "list";
  lists.why_not = [this]() -> std::string {
    const auto overview = ranks_ ? ranks_->overview() : nullptr;
    const auto has_alike = [](const JobOverview& job) {
      return std::ranges::any_of(job.lines, [](const RankLine& line) { return !line.alike.empty(); });
    };
    return overview && std::ranges::any_of(overview->jobs, has_alike) ? "" : "no ranks share a line";
  };
  Command& leaves = keys.add("Go back from the job to the open rank", "", 0, 0, [this] { layout_.maximise(""); });
  leaves.place = "back to rank";
  leaves.label = "Back to the rank";
  leaves.why_not = [this] { return shows_job() ? "" : "the answer about a job is not shown"; };
  keys.add("Show all panes", "Esc", 0, 0, [this] { layout_.maximise(""); }).why_not = [this] {
    return layout_.maximised().empty() ? "they are shown already" : "";
  };
}

void Viewer::make_colour_commands() {
  CommandKeys keys(commands_, selection_);
  keys.add("Colour by category or by stack, in all panes", "C", GLFW_KEY_C, 0, [this] { switch_colours(); });
  for (std::size_t i = 0; i < colour_words.size(); ++i)
    keys.add("Colour allocations by " + std::string(colour_words.at(i)), "", 0, 0,
             [this, i] { selection_.colour = static_cast<MapColour>(i); })
        .why_not = [this, i]() -> std::string {
      const auto by = static_cast<MapColour>(i);
      if (by == MapColour::category && !knows_categories()) return "no categories are known";
      return selection_.colour_by(knows_categories()) == by ? "they are coloured so already" : "";
    };
  for (std::size_t i = 0; i < split_words.size(); ++i) {
    const bool none = static_cast<SplitBy>(i) == SplitBy::nothing;
    keys.add(none ? "Show live and reserved bytes" : "Split live bytes by " + std::string(split_words.at(i)), "", 0, 0,
             [this, i] { selection_.split = static_cast<SplitBy>(i); })
        .why_not = [this, i]() -> std::string {
      const auto by = static_cast<SplitBy>(i);
      if ((by == SplitBy::category || by == SplitBy::phase) && !knows_categories()) return "no categories are known";
      return selection_.split_by(knows_categories()) == by ? "they are split so already" : "";
    };
  }
  for (std::size_t i = 0; i < heap_order_words.size(); ++i)
    keys.add("Order the heap by " + std::string(heap_order_words.at(i)), "", 0, 0,
             [this, i] { settings_.heap_order = static_cast<HeapOrder>(i); })
        .why_not = [this, i] { return settings_.heap_order == static_cast<HeapOrder>(i) ? "it is so" : ""; };
  keys.add("Select the largest free block: what keeps it", "", 0, 0, [this] { select_hole(heap_, selection_); })
      .why_not = [this] { return heap_.largest_gap ? "" : "nothing is free in a segment"; };
  keys.add("Select the segment of the selection, or the next one", "", 0, 0,
           [this] { select_segment(*document_, heap_, settings_.heap_order, selection_); })
      .why_not = [this] { return heap_.segments.empty() ? "there are no segments at the cursor" : ""; };
}

void Viewer::make_verdict_commands() {
  CommandKeys keys(commands_, selection_);
  Command& replays = keys.add("Replay other policies", "", 0, 0, [this] {
    layout_.show_tab("policies");
    panes_->policies.run();
  });
  replays.place = "policies/run";
  replays.label = "Replay";
  const auto why_no_verdict = [this] { return panes_->verdict.shown() == nullptr ? "the trace is not judged" : ""; };
  const auto why_no_setting = [this](bool copied) {
    return [this, copied]() -> std::string {
      const VerdictStrip* const strip = panes_->verdict.shown();
      if (strip == nullptr) return "the trace is not judged";
      if (!strip->offer) return "no setting helps";
      const SettingOffer& offer = *strip->offer;
      return (copied ? offer.export_line : offer.policy).empty() ? "the setting is not one of PyTorch's" : "";
    };
  };
  Command& decides = keys.add("Go to what decides, as the verdict says", "", 0, 0, [this] {
    if (const VerdictStrip* const strip = panes_->verdict.shown()) follow({.go = strip->headline.to, .overlay = {}});
  });
  decides.place = "verdict/decides";
  decides.why_not = why_no_verdict;
  Command& copies = keys.add("Copy the setting that helps (PYTORCH_CUDA_ALLOC_CONF)", "", 0, 0,
                             [this] { panes_->verdict.copy_setting(); });
  copies.place = "verdict/copy";
  copies.why_not = why_no_setting(true);
  Command& overlays = keys.add("Overlay the setting that helps on the timeline", "", 0, 0, [this] {
    const VerdictStrip* const strip = panes_->verdict.shown();
    if (strip != nullptr && strip->offer) follow({.go = {}, .overlay = strip->offer->policy});
  });
  overlays.place = "verdict/overlay";
  overlays.hint = "Overlay what it would have reserved on the timeline";
  overlays.why_not = why_no_setting(false);
}

void Viewer::make_axis_commands() {
  CommandKeys keys(commands_, selection_);
  keys.add("Show or hide the verdict above all panes", "V", GLFW_KEY_V, 0,
           [this] { settings_.verdict = !settings_.verdict; });
  Command& keeps = keys.add("Keep this instant for comparison", "K", GLFW_KEY_K, 0, [this] {
    selection_.kept = selection_.cursor;
    layout_.show_tab("compare");
  });
  keeps.place = "compare/keep";
  keeps.label = "keep the cursor's instant as A";
  keeps.why_not = [this] {
    return selection_.kept == selection_.cursor && layout_.tab() == "compare" ? "it is kept already" : "";
  };
  keys.add("Pause or resume following the file", "Space", GLFW_KEY_SPACE, 0, [this] { paused_ = !paused_; }).why_not =
      [this] { return status().followed ? "" : "the file does not grow"; };
  keys.add("Time, events or steps on the axis", "T", GLFW_KEY_T, 0,
           [this] { axis_ = static_cast<AxisBy>((static_cast<std::size_t>(axis_) + 1) % axis_words.size()); });
  for (std::size_t i = 0; i < axis_words.size(); ++i)
    keys.add("Axis: " + std::string(axis_words.at(i)), "", 0, 0,
             [this, i] {
               axis_ = static_cast<AxisBy>(i);
               steps_asked_ = axis_ == AxisBy::step;
             })
        .why_not = [this, i] { return axis_ == static_cast<AxisBy>(i) ? "it is shown already" : ""; };
}

void Viewer::make_text_commands() {
  CommandKeys keys(commands_, selection_);
  anywhere(keys.add("Light or dark", "L", GLFW_KEY_L, 0, [this] { set_dark(!settings_.dark); }));
  const auto larger = [this] { set_text_size(settings_.text_size * 1.1F); };
  const auto smaller = [this] { set_text_size(settings_.text_size / 1.1F); };
  const auto why_not_larger = [this] {
    return settings_.text_size >= most_text_size ? "it is as large as it gets" : "";
  };
  const auto why_not_smaller = [this] {
    return settings_.text_size <= least_text_size ? "it is as small as it gets" : "";
  };
  anywhere(keys.add("Larger text", "Ctrl +", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL, larger)).why_not = why_not_larger;
  anywhere(keys.add("Larger text", "", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, larger));
  anywhere(keys.add("Larger text", "", GLFW_KEY_KP_ADD, GLFW_MOD_CONTROL, larger));
  anywhere(keys.add("Smaller text", "Ctrl -", GLFW_KEY_MINUS, GLFW_MOD_CONTROL, smaller)).why_not = why_not_smaller;
  anywhere(keys.add("Smaller text", "", GLFW_KEY_KP_SUBTRACT, GLFW_MOD_CONTROL, smaller));
  anywhere(keys.add("Default text size", "Ctrl+0", GLFW_KEY_0, GLFW_MOD_CONTROL, [this] {
    set_text_size(1);
  })).why_not = [this] { return settings_.text_size == 1 ? "it has that size" : ""; };
}

void Viewer::make_file_commands() {
  CommandKeys keys(commands_, selection_);
  Command& sample = anywhere(keys.add("Open the sample", "", 0, 0, [this] { chosen_.sample = true; }));
  sample.place = "start/sample";
  sample.label = sample.name;
  sample.why_not = [] { return sample_trace().empty() ? "the sample is not installed" : ""; };
  Command& opens =
      anywhere(keys.add("Open a file", "Ctrl+O", GLFW_KEY_O, GLFW_MOD_CONTROL, [this] { begin_to_open(); }));
  opens.place = "start/open";
  opens.label = "Open\u2026";
  Command& closes =
      keys.add("Close the file", "Ctrl+W", GLFW_KEY_W, GLFW_MOD_CONTROL, [this] { close_wanted_ = true; });
  closes.needs_trace = false;
  closes.why_not = [this] { return source_ || ranks_ ? "" : "no trace is open"; };
  Command& cancels = anywhere(keys.add("Cancel reading the file", "", 0, 0, [this] { close_wanted_ = true; }));
  cancels.place = "cancel";
  cancels.label = "Cancel";
  cancels.why_not = [this] {
    const Stage stage = status().stage;
    return stage == Stage::importing || stage == Stage::reading ? "" : "nothing is being read";
  };
  Command& dismisses =
      anywhere(keys.add("Dismiss the message, or cancel opening a file", "", 0, 0, [this] { dismiss_notice(); }));
  dismisses.place = "notice/dismiss";
  dismisses.label = "Dismiss";
  dismisses.why_not = [this] { return opening_ || !notice_.empty() ? "" : "there is no message"; };
  anywhere(keys.add("Commands", "Ctrl+Shift+P", GLFW_KEY_P, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, [this] {
    commands_.open_palette();
  })).why_not = [this] { return commands_.palette_is_open() ? "these are the commands" : ""; };
  anywhere(keys.add("Help: all keys", '?', [this] { commands_.toggle_help(); }));
  Command& tour = anywhere(keys.add("Tour", "", 0, 0, [this] { begin_tour(); }));
  tour.place = "start/tour";
  tour.label = "Tour of a sample";
  tour.why_not = [this] { return !source_ && sample_trace().empty() ? "the sample is not installed" : ""; };
  anywhere(keys.add("Quit", "Ctrl+Q", GLFW_KEY_Q, GLFW_MOD_CONTROL, [this] { quit_ = true; }));
}

}  // namespace memreel::viewer
