// What keys and the palette do.
#include <GLFW/glfw3.h>

#include <cmath>

#include "viewer/app/viewer.h"
#include "viewer/model/navigation.h"
#include "viewer/panes/draw.h"

namespace memreel::viewer {

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
  add_character("Zoom in one step", '+', [this, middle] { selection_.zoom(*document_, 0.75, middle()); });
  add_character("Zoom out one step", '-', [this, middle] { selection_.zoom(*document_, 1 / 0.75, middle()); });
  add("Earlier", "A", 0, 0, [this] { selection_.pan(*document_, -0.2); });
  add("Later", "D", 0, 0, [this] { selection_.pan(*document_, 0.2); });
  add("Zoom to the selection or marked range; again: all", "F", GLFW_KEY_F, 0,
      [this] { look_at_selected(*document_, selection_); });
  add("Show the whole trace", "0", GLFW_KEY_0, 0, [this] {
    selection_.look_at_all(*document_);
    selection_.remember();
  });
  add("Zoom out fully", "Home", GLFW_KEY_HOME, 0, [this] { selection_.look_at_all(*document_); });
  add("Mark the view, or the lifetime of the selection", "M", GLFW_KEY_M, 0, [this] {
    selection_.marked = selection_.allocation ? life_of(*document_, *selection_.allocation) : selection_.view;
  });
  add_character("Previous event", ',', [this] { step_event(*document_, selection_, -1); });
  add_character("Next event", '.', [this] { step_event(*document_, selection_, 1); });
  add_character("Previous mark or failure", '[', [this] { step_mark(*document_, selection_, -1); });
  add_character("Next mark or failure", ']', [this] { step_mark(*document_, selection_, 1); });
  add_character("Search stacks and addresses", '/', [this] { focus_search_ = true; });
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
    layout_.show_tab("oom");
    selection_.remember();
  });
  add("Back", "Alt+Left", GLFW_KEY_LEFT, GLFW_MOD_ALT, [this] { selection_.go_back(); });
  add("Forward", "Alt+Right", GLFW_KEY_RIGHT, GLFW_MOD_ALT, [this] { selection_.go_forward(); });
  add("Undo the last zoom or jump", "Ctrl+Z", GLFW_KEY_Z, GLFW_MOD_CONTROL, [this] { selection_.go_back(); });
  add("Clear the selection", "Esc", GLFW_KEY_ESCAPE, 0, [this] {
    if (commands_.help_is_open() || tour_.is_on()) {
      commands_.close_help();
      tour_.end();
    } else if (!selection_.search.empty()) {
      selection_.search.clear();
    } else if (!layout_.maximised().empty()) {
      layout_.maximise("");
    } else {
      selection_.clear();
    }
  });
  constexpr std::size_t digits = 9;
  for (std::size_t i = 0; i < digits; ++i)
    add("Show " + std::string(tab_names.at(i)), std::to_string(i + 1), GLFW_KEY_1 + static_cast<int>(i), 0,
        [this, i] { layout_.show_tab(tab_names.at(i)); });
  add("Show all heaps", "H", GLFW_KEY_H, 0, [this] {
    if (has_tab("heaps")) layout_.show_tab("heaps");
  });
  add("Show ranks", "R", GLFW_KEY_R, 0, [this] {
    if (ranks_) layout_.show_tab("ranks");
  });
  for (const std::string_view name : fixed_names)
    add("Show only the " + std::string(name), "", 0, 0, [this, name] { layout_.maximise(name); });
  add("Show all panes", "Esc", 0, 0, [this] { layout_.maximise(""); });
  add("Colour by category or by stack, in all panes", "C", GLFW_KEY_C, 0, [this] { switch_colours(); });
  for (std::size_t i = 0; i < colour_words.size(); ++i)
    add("Colour allocations by " + std::string(colour_words.at(i)), "", 0, 0,
        [this, i] { selection_.colour = static_cast<MapColour>(i); });
  for (std::size_t i = 0; i < split_words.size(); ++i) {
    const bool none = static_cast<SplitBy>(i) == SplitBy::nothing;
    add(none ? "Show live and reserved bytes" : "Split live bytes by " + std::string(split_words.at(i)), "", 0, 0,
        [this, i] { selection_.split = static_cast<SplitBy>(i); });
  }
  add("Replay other policies", "", 0, 0, [this] {
    layout_.show_tab("policies");
    panes_->policies.run();
  });
  add("Show or hide the verdict above all panes", "V", GLFW_KEY_V, 0,
      [this] { settings_.verdict = !settings_.verdict; });
  add("Keep this instant for comparison", "K", GLFW_KEY_K, 0, [this] {
    selection_.kept = selection_.cursor;
    layout_.show_tab("compare");
  });
  add("Pause or resume following the file", "Space", GLFW_KEY_SPACE, 0, [this] { paused_ = !paused_; });
  add("Time, events or steps on the axis", "T", GLFW_KEY_T, 0,
      [this] { axis_ = static_cast<AxisBy>((static_cast<std::size_t>(axis_) + 1) % axis_words.size()); });
  add("Light or dark", "L", GLFW_KEY_L, 0, [this] { set_dark(!settings_.dark); });
  const auto larger = [this] { set_text_size(settings_.text_size * 1.1F); };
  const auto smaller = [this] { set_text_size(settings_.text_size / 1.1F); };
  add("Larger text", "Ctrl +", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL, larger);
  add("Larger text", "", GLFW_KEY_EQUAL, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, larger);
  add("Larger text", "", GLFW_KEY_KP_ADD, GLFW_MOD_CONTROL, larger);
  add("Smaller text", "Ctrl -", GLFW_KEY_MINUS, GLFW_MOD_CONTROL, smaller);
  add("Smaller text", "", GLFW_KEY_KP_SUBTRACT, GLFW_MOD_CONTROL, smaller);
  add("Default text size", "Ctrl+0", GLFW_KEY_0, GLFW_MOD_CONTROL, [this] { set_text_size(1); });
  add("Open a file", "Ctrl+O", GLFW_KEY_O, GLFW_MOD_CONTROL, [this] { begin_to_open(); });
  add("Commands", "Ctrl+Shift+P", GLFW_KEY_P, GLFW_MOD_CONTROL | GLFW_MOD_SHIFT, [this] { commands_.open_palette(); });
  add_character("Help: all keys", '?', [this] { commands_.toggle_help(); });
  add("Tour", "", 0, 0, [this] { begin_tour(); });
  add("Quit", "Ctrl+Q", GLFW_KEY_Q, GLFW_MOD_CONTROL, [this] { quit_ = true; });
}

void Viewer::handle_keys(double seconds) {
  commands_.handle(window_, open_dialog_.is_open());
  if (is_typing() || document_->empty()) return;
  const auto held = [&](int key, int other) { return window_.is_held_alone(key) || window_.is_held_alone(other); };
  const Nanoseconds anchor = selection_.hovered_time.value_or(selection_.view.begin + selection_.view.length() / 2);
  // A key that is held zooms five times in a second, and moves one and a half screens.
  const double t = std::min(seconds, 0.1);
  if (held(GLFW_KEY_W, GLFW_KEY_W)) selection_.zoom(*document_, std::pow(5.0, -t * 2), anchor);
  if (held(GLFW_KEY_S, GLFW_KEY_S)) selection_.zoom(*document_, std::pow(5.0, t * 2), anchor);
  if (held(GLFW_KEY_A, GLFW_KEY_LEFT)) selection_.pan(*document_, -1.5 * t);
  if (held(GLFW_KEY_D, GLFW_KEY_RIGHT)) selection_.pan(*document_, 1.5 * t);
}

}  // namespace memreel::viewer
