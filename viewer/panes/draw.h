// SPDX-License-Identifier: Apache-2.0
// Drawing helpers shared by the panes: rectangles, time series, textures.
#pragma once

#include <imgui.h>

#include <algorithm>
#include <functional>
#include <span>

#include "viewer/model/axis.h"
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
  friend bool operator==(const Area&, const Area&) = default;
};

/// Takes the rest of the window and covers it with an invisible button called `name`.
Area take_area(const char* name);
void note_place(Scene& scene, const std::string& name, const Area& area);
/// The area of the last item; if it is a control, keys can reach it.
void note_item(Scene& scene, const std::string& name);
/// The same for a text field.
void note_field(Scene& scene, const std::string& name);
/// An entry of a menu; true when it was chosen. `chosen`: it is what the menu shows.
bool menu_entry(Scene& scene, const std::string& label, bool chosen, const std::string& place);

void fill(ImDrawList& list, const Area& area, Colour colour);
void outline(ImDrawList& list, const Area& area, Colour colour, float thickness = 1);
/// `align`: 0 left of `at`, 0.5 centred on it, 1 right.
void text(ImDrawList& list, ImVec2 at, Colour colour, std::string_view what, float align = 0);
/// Draws text beside an axis tick at `at`: to the right of it, or to the left if it would extend beyond `right`.
void tick_label(const Scene& scene, ImDrawList& list, ImVec2 at, float right, std::string_view what);
/// The text, shortened with an ellipsis to at most `width`.
std::string fitting(std::string_view what, float width);

/// Time on a horizontal axis.
class TimeAxis {
 public:
  TimeAxis(TimeRange view, Area area, AxisScale scale = {});
  float x_of(Nanoseconds time) const;
  /// Also valid far outside the area.
  double exact_x_of(Nanoseconds time) const;
  Nanoseconds time_at(float x) const;
  /// Round instants, counted from `zero`, about `spacing` pixels apart; for a time axis.
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
  double begin_ = 0, length_ = 1;  // positions; for axes other than time
};

/// The distance of an axis's ticks up to `top`: a power of two, such that there are at most `most`.
std::uint64_t byte_tick(std::uint64_t top, int most);

/// Handles wheel, drag and click on an area with a time axis: the wheel zooms, the right button pans, the left one sets
/// and drags the cursor; with Shift it marks a range. Call right after take_area(). `click_puts_cursor`: whether a
/// click without a drag sets the cursor.
void navigate(Scene& scene, const TimeAxis& axis, const Area& area, bool click_puts_cursor = true);

/// Whether the left button was dragged since it was pressed, not just clicked; valid while it is down and in the frame
/// of its release.
bool was_dragged();

/// Draws the vertical lines of cursor, pointer and kept instant, and the marked range.
void draw_instants(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);
/// Draws the cursor's handle at the top of `area`; with a kept instant, the two are labelled A and B.
void draw_handles(Scene& scene, ImDrawList& list, const TimeAxis& axis, const Area& area);

/// Draws a legend entry, a colour and its meaning, on the current line. Returns false without drawing if there is no
/// room for a whole entry.
/// `inside`: of a colour that is only an edge; 0: the same.
bool legend_entry(const Scene& scene, const char* name, Colour colour, const std::string& value, Colour inside = 0);
/// The area of the entry drawn last, including its colour and name.
Area legend_area(const Scene& scene, const std::string& name, const std::string& value);

/// Shows a message instead of a pane's content: why there is none, and what to do.
void explain(Scene& scene, const Area& area, std::string_view what, std::string_view remedy = {});

/// The button at `place`, followed by a text; true when the button was pressed.
bool draw_job_line(Scene& scene, const std::string& place, const std::string& what);

/// A job's progress on the current line, with a button to cancel it or, once cancelled, to resume it. Shows nothing for
/// a job that ends too quickly to be read. `name`: prefix of the buttons' positions, "NAME/cancel" and "NAME/go on";
/// `doing`: "Judging".
template <class Job>
void draw_job(Scene& scene, const std::string& name, const char* doing, Job& job) {
  if (job.given_up()) {
    if (draw_job_line(scene, name + "/go on", std::string(doing) + " was cancelled")) job.retry();
  } else if (constexpr std::chrono::milliseconds readable{300}; job.running_for() > readable) {
    const std::string share = std::to_string(static_cast<int>(job.progress() * 100));
    if (draw_job_line(scene, name + "/cancel", std::string(doing) + " " + share + " %")) job.give_up();
  }
}

/// Begins a dialog: a window with an edge. End it with ImGui::End().
void begin_dialog(const Theme& theme, float scale, const char* name, bool* open, ImGuiWindowFlags flags);
/// Draws the shadows of the menus and dialogs that are open: after all of them.
void draw_shadows(float scale);

/// Whether Enter was pressed in the text field drawn last.
bool item_entered(const Scene& scene);

/// Whether a text field takes this frame's keys. WantTextInput alone lags by a frame: it is still set in the frame
/// after the field lost focus, and a shortcut pressed then would be lost.
bool is_typing();

/// Whether a key was pressed or repeated in this frame.
bool key_pressed(ImGuiKey key);

/// A label and a value on one line, the value right of `column`. The value, at the place "value/LABEL", is copied by
/// Enter, or selected by the mouse.
void property(Scene& scene, const char* label, const std::string& value, float column);

/// The position of `bytes` on an axis from 0 to `top` over the height of `area`.
float y_of(const Area& area, std::uint64_t bytes, std::uint64_t top);

/// Fills columns from `rows(x).first` down to `rows(x).second`. Identical neighbours become one rectangle: a pixel is
/// filled when its middle is covered, so values that round to the same pixels look the same.
template <class XOf, class Rows>
void fill_columns(ImDrawList& list, std::size_t count, const XOf& x_of, Colour colour, const Rows& rows) {
  // Thousands a frame, so none is visited twice, and nothing calls a function for it.
  const auto rounded = [&](std::size_t x) {
    const std::pair<float, float> edges = rows(x);
    const auto to_pixel = [](float y) { return static_cast<int>(std::clamp(y, 0.0F, 65536.0F) + 0.5F); };
    return std::pair{to_pixel(edges.first), to_pixel(edges.second)};
  };
  if (count == 0) return;
  auto here = rounded(0);
  for (std::size_t x = 0; x < count;) {
    std::size_t end = x + 1;
    auto next = here;
    while (end < count && (next = rounded(end)) == here) ++end;
    if (here.first < here.second)
      fill(list, {x_of(x), static_cast<float>(here.first), x_of(end), static_cast<float>(here.second)}, colour);
    x = end;
    here = next;
  }
}

/// Thousands of rectangles, kept while nothing that they show changes: repeating them takes a fraction of the time.
/// `Key`: all that they depend on, other than the glyphs.
template <class Key>
class KeptRectangles {
 public:
  /// Calls `draw`, which adds nothing but rectangles to `list`, or adds what it did the last time.
  template <class Draw>
  void draw(ImDrawList& list, const Key& key, const Draw& draw) {
    const ImVec2 white = ImGui::GetFontTexUvWhitePixel();
    if (key_ == key && white_.x == white.x && white_.y == white.y) return repeat(list);
    const int before = list.VtxBuffer.Size;
    draw();
    corners_.assign(list.VtxBuffer.begin() + before, list.VtxBuffer.end());
    key_ = key;
    white_ = white;
  }

 private:
  void repeat(ImDrawList& list) const {
    constexpr std::size_t at_once = 4096;  // rectangles; what can be counted in the 16 bits of an index
    for (std::size_t done = 0, all = corners_.size() / 4; done < all;) {
      const std::size_t some = std::min(at_once, all - done);
      list.PrimReserve(static_cast<int>(6 * some), static_cast<int>(4 * some));
      std::copy_n(corners_.data() + 4 * done, 4 * some, list._VtxWritePtr);
      unsigned corner = list._VtxCurrentIdx;
      for (std::size_t i = 0; i < some; ++i, corner += 4)
        for (const unsigned of : {0U, 1U, 2U, 0U, 2U, 3U}) *list._IdxWritePtr++ = static_cast<ImDrawIdx>(corner + of);
      list._VtxWritePtr += 4 * some;
      list._VtxCurrentIdx = corner;
      done += some;
    }
  }

  std::optional<Key> key_;
  ImVec2 white_{0, 0};
  std::vector<ImDrawVert> corners_;
};

/// The left edge of a column on screen.
using ColumnPlace = std::function<float(std::size_t column)>;

/// Reserved, held and live bytes. `has_pending`: whether any free of the heap completes later than it was requested.
void draw_series(const Theme& theme, ImDrawList& list, const Area& area, std::uint64_t top,
                 const std::vector<SeriesColumn>& columns, bool has_pending, const ColumnPlace& x_of);

/// "2 GiB": ticks are round.
std::string tick_text(std::uint64_t bytes);

/// The highest value of the columns; the axis ends a little above.
std::uint64_t highest(const std::vector<SeriesColumn>& columns);

/// An axis label, legible on data of any colour.
void label(const Scene& scene, ImDrawList& list, ImVec2 at, const std::string& what);

class Texture {
 public:
  Texture() = default;
  Texture(const Texture&) = delete;
  Texture& operator=(const Texture&) = delete;
  ~Texture();

  /// Replaces the texture by one of another name. Pixels are 0xAABBGGRR, row by row from the top. Needs a current
  /// OpenGL context, as the destructor does.
  void upload(std::uint32_t width, std::uint32_t height, std::span<const std::uint32_t> pixels);
  /// For ImDrawList::AddImage.
  ImTextureID id() const;
  bool empty() const { return name_ == 0; }

 private:
  std::uint32_t name_ = 0;
};

}  // namespace memreel::viewer
