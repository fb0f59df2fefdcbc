// SPDX-License-Identifier: Apache-2.0
// The keyboard's focus: the control on screen that keys act on. Tab moves it between parts of the window, arrows within
// a part; a list takes the arrows for its rows.
//
// Dear ImGui's own navigation is off: it takes the arrows from the timeline, does not know controls that are drawn by
// hand, and in the versions of distributions neither stops at buttons with Tab nor presses them with Enter. It does
// activate what has the focus here.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/panes/theme.h"

namespace memreel::viewer {

enum class FocusKey : std::uint8_t {
  next_part,
  previous_part,
  up,
  down,
  left,
  right,
  page_up,
  page_down,
  home,
  end,
  press,  // as a click
  space,  // the same, but for lists
  open,   // as a double click
  menu,   // as a right click
  leave,
};

enum class FocusKind : std::uint8_t {
  button,
  field,   // for text
  header,  // of a column
  list,    // with rows of its own
  drawn,   // by hand: the pane asks takes()
};

/// Whether `place` is meant by `pattern`: itself, what it begins with before a '*' at its end, or what it ends with
/// after a '*' at its begin.
bool is_at(std::string_view pattern, std::string_view place);

/// A control that can have the focus, as drawn in a frame.
struct Focusable {
  std::string name;  // of its place
  FocusKind kind = FocusKind::button;
  ImGuiID id = 0;               // Dear ImGui's
  ImGuiID scope = 0;            // the window, dialog or menu that it belongs to
  int rank = 0;                 // of the scope: 0 the window, 1 a dialog, 2 a menu
  int part = 0;                 // of the scope
  ImVec4 area{}, visible_in{};  // left, top, right, bottom
};

class Focus {
 public:
  void begin_frame();
  /// Draws the ring, above everything.
  void end_frame(const Theme& theme, float scale);
  /// Acts on a key; false if it is left to others. At rest, before the first Tab, only Tab and up and down are taken,
  /// the latter for the list.
  bool press(FocusKey key);
  /// Whether any control has the focus, with a ring around it.
  bool is_on() const { return on_; }
  void leave() { on_ = false; }
  /// Gives the focus to the first control on screen whose name begins so; false if there is none.
  bool enter(std::string_view begins);
  /// Leaves the text field that is being typed into, which gets the focus.
  void leave_field();
  /// Activates a control as soon as it is drawn, and gives it the focus. `name`: see is_at(); the first that it means.
  void act_on(std::string name);
  /// Whether that is still to be done.
  bool is_waiting() const { return !wanted_.empty(); }
  /// The name of one that did not appear; once.
  std::string take_missing();
  /// The name of the control that has the focus; empty: none.
  std::string at() const { return on_ ? here() : std::string(); }
  /// The row of the list that has the focus.
  std::optional<std::uint64_t> row() const { return at().empty() ? std::nullopt : row_; }
  /// What was drawn in the last frame.
  std::span<const Focusable> stops() const { return last_; }

  // For panes.

  /// What is drawn next is another part of the window; each child window is one anyway.
  void new_part() { ++part_; }
  /// The last item of Dear ImGui.
  void add_item(const std::string& name, FocusKind kind = FocusKind::button);
  void add(const std::string& name, FocusKind kind, ImVec2 from, ImVec2 to);
  /// A list: the keys for it in this frame; none unless it has the focus.
  std::span<const FocusKey> add_list(const std::string& name, ImVec2 from, ImVec2 to);
  void set_row(std::uint64_t row) { row_ = row; }
  bool has(std::string_view name) const { return on_ && here() == name; }
  /// Whether `key` was pressed on it in this frame.
  bool takes(std::string_view name, FocusKey key = FocusKey::press) const {
    return pressed_ == name && pressed_key_ == key;
  }
  void move_to(const std::string& name);
  /// The menu that is being drawn begins at this item, the chosen one.
  void begin_at(const std::string& name) { begin_at_ = name; }

 private:
  const std::string& here() const;
  const Focusable* find(std::string_view name) const;
  const Focusable* list_to_enter() const;
  /// The one that has the focus or, if it is gone, that took its place.
  const Focusable* current() const;
  bool begin(FocusKey key);
  void step(const Focusable& from, int by, bool across_parts);
  void step_part(const Focusable& from, int by);
  void step_down(const Focusable& from, int by);
  void activate(const Focusable& stop, FocusKey key);
  void follow_mouse();
  void choose_scope();
  void fulfil();

  std::vector<Focusable> stops_, last_;
  std::map<ImGuiID, std::string> at_;  // in each scope
  ImGuiID scope_ = 0;
  int rank_ = 0;
  int part_ = 0;
  ImGuiID part_window_ = 0;
  std::size_t index_ = 0;  // of the one that had the focus, among those of its scope
  bool on_ = false, scrolls_ = false;
  std::vector<FocusKey> keys_;  // of the list
  std::optional<std::uint64_t> row_;
  std::string pressed_, begin_at_, wanted_, missing_;
  FocusKey pressed_key_ = FocusKey::press;
  int tried_ = 0;  // frames
};

}  // namespace memreel::viewer
