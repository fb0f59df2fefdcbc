// SPDX-License-Identifier: Apache-2.0
// All commands with a key: one list for the keyboard, the palette and the help.
#pragma once

#include <imgui.h>

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "viewer/app/window.h"
#include "viewer/panes/controls.h"

namespace memreel::viewer {

struct Command {
  std::string name;      // "Go to the peak of live bytes"
  std::string shortcut;  // as displayed
  std::function<void()> run;
  int key = 0;  // GLFW's; 0: none
  int modifiers = 0;
  unsigned character = 0;  // instead of a key, where layouts differ; 0: none
  std::string place;       // of the button that does the same, see is_at(); empty: none
  std::string label;       // on it; empty: the place after its first '/'
  std::string hint;        // shown while it is pointed at; empty: the name, but of choices nothing
  /// Why it can't be done, or would change nothing, now; empty: it can. Not set: it always can.
  std::function<std::string()> why_not;
  bool needs_trace = true;
};

/// "verdict: copy" for the place "verdict/copy".
std::string label_of(std::string_view place);

class Commands final : public Controls {
 public:
  /// All are added before the first frame. Valid until the next call.
  Command& add(Command command) { return commands_.emplace_back(std::move(command)); }
  /// Those that depend on what is on screen, asked for when the palette opens.
  void set_passing(std::function<std::vector<Command>()> passing) { passing_of_ = std::move(passing); }
  void set_has_trace(std::function<bool()> has_trace) { has_trace_ = std::move(has_trace); }

  /// Runs the commands of what was typed; none while a text field or a dialog has the keyboard focus.
  void handle(std::span<const KeyPress> keys, std::span<const unsigned> characters, bool has_dialog);

  void open_palette();
  bool palette_is_open() const { return palette_; }
  void draw_palette(const Window& window, const Theme& theme, std::map<std::string, ImVec4>& places);
  /// Why the command that was tried can't be run; empty: none was tried.
  const std::string& refusal() const { return refusal_; }

  void toggle_help() { help_ = !help_; }
  void close_help() { help_ = false; }
  bool help_is_open() const { return help_; }
  /// Draws the list of all keys; stores its position in `places`.
  void draw_help(const Window& window, const Theme& theme, std::map<std::string, ImVec4>& places);

  /// Of all commands, including the passing ones; valid until the next call.
  std::vector<const Command*> all();
  /// Whether a button at this place has a command of its own.
  bool has_button(std::string_view place) const { return find(place) != nullptr; }
  std::optional<ButtonWords> at(std::string_view place) const override;
  void press(std::string_view place) override { pressed_.emplace_back(place); }
  /// Runs the commands whose buttons were pressed in this frame.
  void run_pressed();
  std::string why_not(const Command& command) const;

 private:
  std::vector<const Command*> found() const;
  const Command* find(std::string_view place) const;

  std::vector<Command> commands_, passing_;
  std::function<std::vector<Command>()> passing_of_;
  std::function<bool()> has_trace_;
  std::vector<std::string> pressed_;                                     // places of buttons
  mutable std::map<std::string, const Command*, std::less<>> by_place_;  // as far as they were asked for
  std::string typed_, refusal_;
  int chosen_ = 0;
  bool palette_ = false, opening_ = false, unfocused_ = false;
  bool help_ = false;
};

}  // namespace memreel::viewer
