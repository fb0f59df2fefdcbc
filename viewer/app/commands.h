// SPDX-License-Identifier: Apache-2.0
// All commands with a key: one list for the keyboard, the palette and the help.
#pragma once

#include <imgui.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "viewer/app/window.h"

namespace memreel::viewer {

struct Command {
  std::string name;      // "Go to the peak of live bytes"
  std::string shortcut;  // as displayed
  std::function<void()> run;
  int key = 0;  // GLFW's; 0: none
  int modifiers = 0;
  unsigned character = 0;  // instead of a key, where layouts differ; 0: none
};

class Commands {
 public:
  void add(Command command) { commands_.push_back(std::move(command)); }

  /// Runs the commands typed since the last frame; none while a text field or a dialog has the keyboard focus.
  void handle(const Window& window, bool has_dialog);

  void open_palette() { palette_ = opening_ = true; }
  bool palette_is_open() const { return palette_; }
  void draw_palette(const Window& window, const Theme& theme);

  void toggle_help() { help_ = !help_; }
  void close_help() { help_ = false; }
  bool help_is_open() const { return help_; }
  /// Draws the list of all keys; stores its position in `places`.
  void draw_help(const Window& window, const Theme& theme, std::map<std::string, ImVec4>& places);

 private:
  std::vector<Command> commands_;
  std::string typed_;
  int chosen_ = 0;
  bool palette_ = false, opening_ = false, unfocused_ = false;
  bool help_ = false;
};

}  // namespace memreel::viewer
