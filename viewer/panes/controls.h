// SPDX-License-Identifier: Apache-2.0
// The buttons of panes. What they say, and whether they can be pressed, comes from the list of commands: a pane has no
// button that is not a command.
#pragma once

#include <imgui.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memreel::viewer {

struct Scene;

/// A command, as its button shows it.
struct ButtonWords {
  std::string label;    // on the button
  std::string name;     // in the list, with its key
  std::string hint;     // shown while it is pointed at; empty: the name, but of choices nothing
  std::string why_not;  // why it can't be pressed now; empty: it can
};

/// A button of the last frame.
struct DrawnButton {
  std::string place, label;
  bool is_command = false, can_be_pressed = false;
};

/// The commands, as panes know them.
class Controls {
 public:
  virtual ~Controls() = default;
  /// The command that a button at this place belongs to; none: there is no such command.
  virtual std::optional<ButtonWords> at(std::string_view place) const = 0;
  /// Runs it once the frame is drawn.
  virtual void press(std::string_view place) = 0;

  void begin_frame() { drawn_.clear(); }
  void add(DrawnButton control) { drawn_.push_back(std::move(control)); }
  std::span<const DrawnButton> drawn() const { return drawn_; }

 private:
  std::vector<DrawnButton> drawn_;
};

/// What a pane adds to a button.
struct ButtonLook {
  std::string says{};  // data instead of the command's label, such as the name of a block; empty: the label
  std::string hint{};  // the same for what is shown while it is pointed at
  ImVec2 size{0, 0};   // 0: as the text needs it
  bool is_large = false;
};

/// A button whose command presses it: the pane acts. True when it was pressed.
bool push_button(Scene& scene, std::string_view place, const ButtonLook& look = {});
/// A button that runs its command.
void command_button(Scene& scene, std::string_view place, const ButtonLook& look = {});
/// True when it was pressed. With an edge, so that those that are not chosen can be seen.
bool radio_button(Scene& scene, std::string_view place, bool chosen);
bool check_box(Scene& scene, std::string_view place, bool& checked);

/// Of a button without a size of its own.
float button_width(const Scene& scene, std::string_view place, std::string_view says = {});

}  // namespace memreel::viewer
