// SPDX-License-Identifier: Apache-2.0
// The window: setup and teardown of GLFW, OpenGL 3 and ImGui; keys; screenshots.
#pragma once

#include <GLFW/glfw3.h>
#include <imgui.h>

#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "formats/model/result.h"
#include "viewer/app/frames.h"
#include "viewer/app/opengl.h"
#include "viewer/panes/theme.h"

struct GLFWwindow;

namespace memreel::viewer {

struct WindowOptions {
  int width = 1600, height = 1000;
  double scale = 0;        // pixels per unit of length; 0: from the screen, or from the height if off-screen
  bool offscreen = false;  // draws into a picture of exactly this size; no window appears
};

/// A key press or repeat, in GLFW's key codes.
struct KeyPress {
  int key = 0;
  int modifiers = 0;
};

/// The cost of a frame. CPU time is that of the window's own thread, so waiting does not count.
struct FrameTimes {
  double build_ms = 0;   // CPU time: queries to the model, layout, vertices
  double submit_ms = 0;  // CPU time: submitting the vertices to OpenGL
  /// When measured: CPU time of the same calls repeated with the same vertices but nothing drawn. The excess of
  /// submit_ms over this is a software driver's, which transforms every vertex before it returns.
  double hand_over_ms = 0;
  double raster_ms = 0;  // wall time of rasterization, which in software is most of the frame
  double whole_ms = 0;   // wall time

  std::uint32_t vertices = 0, draws = 0;
  bool drawn = true;  // false: the picture is the one shown already

  /// CPU time of the user interface.
  double ui_ms() const { return build_ms + submit_ms; }
  /// The part of it that is not a software driver's work.
  double own_ms() const { return build_ms + hand_over_ms; }
};

/// Wall time of the phases before the first frame.
struct StartTimes {
  double display_ms = 0;  // connecting to the display
  double context_ms = 0;  // a window with OpenGL: loading its driver
  double fonts_ms = 0;    // rasterizing the glyphs
};

class Window {
 public:
  /// Fails without a display or OpenGL 3.
  static Result<std::unique_ptr<Window>> open(const WindowOptions& options);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  float scale() const { return scale_; }
  /// Scales everything relative to the unzoomed size, from the next frame on.
  void set_zoom(float zoom) { wanted_scale_ = base_scale_ * zoom; }
  /// "memreel" until this is called.
  void set_title(const std::string& title);
  const StartTimes& start_times() const { return start_times_; }
  /// Whether frames measure FrameTimes::hand_over_ms, which takes that much extra time.
  void measure_hand_over(bool wanted) { measures_hand_over_ = wanted; }
  /// Whether frames are drawn even if they repeat the picture, for measurements.
  void draw_always(bool wanted) { draws_always_ = wanted; }
  /// Draws a frame, unless it repeats the picture that is shown; `contents` makes the ImGui calls, once more for each
  /// press and release of a mouse button since the last frame, so that the picture shows what they did.
  FrameTimes frame(const Theme& theme, const std::function<void()>& contents);
  /// Waits for an event, at most this long.
  void wait(double seconds);
  /// Waits four times as long as the last frame took, at most a tenth of a second, or until an event: used while a file
  /// is read, so that software rendering leaves the CPU to its threads.
  void rest();
  /// Ends a wait(), from any thread; does nothing while there is no window.
  static void wake();
  bool should_close() const;

  // Input since the last frame.
  const std::vector<KeyPress>& keys() const { return keys_; }
  /// Whether Enter was pressed, on the main keyboard or the keypad.
  bool entered() const;
  /// Whether there was any, of any kind, that the frame before had not seen.
  bool has_input() const { return has_input_; }
  /// The number of key presses so far.
  std::uint64_t key_count() const { return key_count_; }
  /// The number of mouse button and wheel events so far; 0 in a page.
  std::uint64_t mouse_count() const { return mouse_count_; }
  /// The number of pictures drawn so far; 0 in a page.
  std::uint64_t picture_count() const { return picture_count_; }
  const std::vector<unsigned>& characters() const { return characters_; }
  const std::vector<std::string>& dropped_files() const { return dropped_; }
  /// Whether the key is held down and was not pressed as part of Ctrl+key or Alt+key, whichever of the two is released
  /// first.
  bool is_held_alone(int key) const;

  /// The last frame as RGBA, top row first.
  std::vector<std::uint8_t> pixels(std::uint32_t& width, std::uint32_t& height) const;

 private:
  Window() = default;
  Result<void> create(const WindowOptions& options);
  void load_fonts() const;
  /// Loads the fonts and rasterizes their glyphs, on any thread.
  void rasterize() const;
  void apply_zoom();
  /// Takes over the scale of the screen that the window is on, unless one was chosen, and how fine its picture is.
  void measure_screen();
  void begin_imgui_frame();
  /// Makes the ImGui calls of a frame for each change of a mouse button, and for what they did.
  void build(const Theme& theme, const std::function<void()>& contents);
  void make_picture();
  /// Draws and shows it; adds what this cost to `times`.
  void draw(ImDrawData& data, const Theme& theme, FrameTimes& times);
  static Window& of(GLFWwindow* window);

  GLFWwindow* window_ = nullptr;
  std::unique_ptr<OffscreenContext> context_;  // if there is no display; else GLFW's is used
  bool has_imgui_ = false;
  bool offscreen_ = false;
  int width_ = 0, height_ = 0;
  float scale_ = 1, base_scale_ = 1, wanted_scale_ = 1;
  float raster_ = 1;        // pixels of the picture per unit of coordinates
  float chosen_scale_ = 0;  // in pixels; 0: the screen's
  StartTimes start_times_;
  double last_frame_ms_ = 0;
  bool measures_hand_over_ = false, draws_always_ = false;
  ShownPicture shown_;
  std::uint32_t framebuffer_ = 0, colour_ = 0;  // when off-screen
  std::vector<KeyPress> keys_, new_keys_;
  MouseButtons buttons_;
  ImVec2 pointer_{0, 0};      // after the last event
  Clock::time_point polled_;  // when input was last asked for,
  float between_polls_ = 0;   // and how long after the time before, in seconds
  int new_left_presses_ = 0;  // of the mouse
  bool has_input_ = false, new_input_ = false;
  std::set<int> held_alone_;
  std::uint64_t key_count_ = 0, mouse_count_ = 0, picture_count_ = 0;
  std::vector<unsigned> characters_, new_characters_;
  std::vector<std::string> dropped_, new_dropped_;
};

// Input between two slow frames, for the window and the page.

/// ImGui::NewFrame(), given the next change of a mouse button, the keys pressed since the last frame, the number of
/// left button presses since then, and the seconds during which all of this may have happened.
///
/// ImGui takes the time of the frame for the time of a press. Before 1.87 it only polls what is down when a frame
/// begins: a key pressed and released between two frames is lost, as is a modifier such as Ctrl. All of this happens
/// when frames are slow, as with software rendering on a remote display.
inline void new_frame([[maybe_unused]] MouseButtons& buttons, [[maybe_unused]] int left_presses,
                      [[maybe_unused]] std::span<const KeyPress> keys, float since_last_poll) {
  constexpr float longest_between_clicks = 0.3F;  // seconds, ImGui's default
  ImGuiIO& io = ImGui::GetIO();
  io.MouseDoubleClickTime = longest_between_clicks + 2 * since_last_poll;
#if IMGUI_VERSION_NUM < 18700
  buttons.apply_next(io);
  std::vector<bool*> released;
  int modifiers = 0;
  for (const KeyPress& press : keys)
    if (press.key >= 0 && press.key < static_cast<int>(std::size(io.KeysDown)) && !io.KeysDown[press.key]) {
      *released.emplace_back(&io.KeysDown[press.key]) = true;
      modifiers |= press.modifiers;
    }
  const auto is_down = [&](int modifier, int left, int right) {
    return (modifiers & modifier) != 0 || io.KeysDown[left] || io.KeysDown[right];
  };
  io.KeyCtrl = is_down(GLFW_MOD_CONTROL, GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL);
  io.KeyShift = is_down(GLFW_MOD_SHIFT, GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT);
  io.KeyAlt = is_down(GLFW_MOD_ALT, GLFW_KEY_LEFT_ALT, GLFW_KEY_RIGHT_ALT);
  io.KeySuper = is_down(GLFW_MOD_SUPER, GLFW_KEY_LEFT_SUPER, GLFW_KEY_RIGHT_SUPER);
  ImGui::NewFrame();
  for (bool* down : released) *down = false;
#else
  ImGui::NewFrame();
  if (left_presses < 2 || !io.MouseClicked[ImGuiMouseButton_Left]) return;
  io.MouseDoubleClicked[ImGuiMouseButton_Left] = true;
  io.MouseClickedCount[ImGuiMouseButton_Left] = 2;
  io.MouseClickedLastCount[ImGuiMouseButton_Left] = 2;
#endif
}

}  // namespace memreel::viewer
