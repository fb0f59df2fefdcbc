// Drawing that several panes do in the same way.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <imgui.h>

#include "viewer/panes/scene.h"

namespace memreel::viewer {

/// A rectangle of the screen.
struct Area {
  float left = 0, top = 0, right = 0, bottom = 0;
  float width() const { return right - left; }
  float height() const { return bottom - top; }
  ImVec2 min() const { return {left, top}; }
  ImVec2 max() const { return {right, bottom}; }
  bool contains(ImVec2 p) const { return p.x >= left && p.x < right && p.y >= top && p.y < bottom; }
};

/// What is left of the window, taken: an invisible button called `name` lies over it.
Area take_area(const char* name);
void note_place(Scene& scene, const std::string& name, const Area& area);
/// The place of the last item.
void note_item(Scene& scene, const std::string& name);

void fill(ImDrawList& list, const Area& area, Colour colour);
void outline(ImDrawList& list, const Area& area, Colour colour, float thickness = 1);
/// `align`: 0 left of `at`, 0.5 centred on it, 1 right.
void text(ImDrawList& list, ImVec2 at, Colour colour, std::string_view what, float align = 0);
/// Beside the tick of an axis at `at`: to the right of it, or to the left where that would reach beyond `right`.
void tick_label(const Scene& scene, ImDrawList& list, ImVec2 at, float right, std::string_view what);
/// Cut with an ellipsis so that it takes at most `width`.
std::string fitting(std::string_view what, float width);

/// Time on a horizontal axis.
class TimeAxis {
 public:
  TimeAxis(TimeRange view, Area area, AxisScale scale = {});
  float x_of(Nanoseconds time) const;
  /// Far beyond the area, too.
  double exact_x_of(Nanoseconds time) const;
  Nanoseconds time_at(float x) const;
  /// Round instants, counted from `zero`, about `spacing` pixels apart; of an axis of time.
  std::vector<Nanoseconds> ticks(Nanoseconds zero, float spacing) const;
  Nanoseconds tick_step(float spacing) const;
  struct Tick {
    float x = 0;
    std::string label;
  };
  /// The same for any axis: "1.2 s", "event 2,000", "step 7".
  std::vector<Tick> labelled_ticks(Nanoseconds zero, float spacing) const;

 private:
  double share_of(Nanoseconds time) const;

  TimeRange view_;
  Area area_;
  AxisScale scale_;
  double begin_ = 0, length_ = 1;  // positions; of axes that are not time
};

/// A power of two or a half of one above `bytes`, for the top of an axis, and the distance of its ticks.
std::uint64_t byte_tick(std::uint64_t top, int most);

/// Wheel, drag and click on an area whose width is time: the wheel zooms, the right button pans, the left one puts the
/// cursor and drags it; with Shift it marks a range. Call right after take_area(). `click_puts_cursor`: whether a click
/// without a drag does.
void navigate(Scene& scene, const TimeAxis& axis, const Area& area, bool click_puts_cursor = true);

/// Whether the left button was dragged since it went down, and not only clicked; while it is down, and when it is let
/// go of.
bool was_dragged();

/// The vertical lines of cursor, pointer and the instant that was kept, and the range that is marked.
void draw_instants(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
/// Where the cursor can be taken hold of, at the top of `area`; with an instant that was kept, the two are A and B.
void draw_handles(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);

/// A colour and what it means, beside what is there. False when there is no more room: half an entry tells nobody
/// anything.
bool legend_entry(const Scene& scene, const char* name, Colour colour, const std::string& value);
/// All of the entry that was drawn last, its colour and its name with it.
Area legend_area(const Scene& scene, const std::string& name, const std::string& value);

/// What a pane says instead of its content: why there is none, and what to do.
void explain(Scene& scene, const Area& area, std::string_view what, std::string_view remedy = {});

/// A text and, before it, a button; true when that was pressed.
bool draw_job_line(Scene& scene, const std::string& place, const std::string& what, const char* button);

/// How far a job is, on the current line, with a button that gives it up; or, when it was, one that takes it up again.
/// Nothing of a job that is over before anybody could read it. `name`: of their places, "NAME/cancel" and "NAME/go on";
/// `doing`: "Judging".
template <class Job>
void draw_job(Scene& scene, const std::string& name, const char* doing, Job& job) {
  if (job.given_up()) {
    if (draw_job_line(scene, name + "/go on", std::string(doing) + " was cancelled", "Go on")) job.retry();
  } else if (constexpr std::chrono::milliseconds readable{300}; job.running_for() > readable) {
    const std::string share = std::to_string(static_cast<int>(job.progress() * 100));
    if (draw_job_line(scene, name + "/cancel", std::string(doing) + " " + share + " %", "Cancel")) job.give_up();
  }
}

/// Whether Enter was pressed in the text field that was drawn last.
bool item_entered(const Scene& scene);

/// Whether a text field takes the keys of this frame. WantTextInput alone is one frame late: it still holds in the frame
/// after the field was left, and a shortcut pressed then would be lost.
bool is_typing();

/// Whether a key was pressed in this frame, or repeats.
bool key_pressed(ImGuiKey key);

/// A label and a value on one line, the value to the right of `column`; it can be selected and copied.
void property(const char* label, const std::string& value, float column);

}  // namespace memreel::viewer
