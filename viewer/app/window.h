// The window: GLFW, OpenGL 3 and ImGui set up and taken down; keys; pictures of what was drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "formats/model/result.h"
#include "viewer/app/offscreen_context.h"
#include "viewer/panes/theme.h"

struct GLFWwindow;

namespace memreel::viewer {

struct WindowOptions {
  std::string title;
  int width = 1600, height = 1000;
  double scale = 0;        // pixels per unit of length; 0: as the screen says, off-screen as the height does
  bool offscreen = false;  // draws into a picture of exactly that size; no window appears
};

/// A key that went down, or repeats: GLFW's numbers.
struct KeyPress {
  int key = 0;
  int modifiers = 0;
};

/// What a frame took. Processor time is that of the window's own thread: waiting costs none.
struct FrameTimes {
  double build_ms = 0;   // processor time: questions to the model, layout, vertices
  double submit_ms = 0;  // processor time: handing the vertices to OpenGL
  /// When measured: processor time of the same calls once more, with the same vertices of which nothing is drawn. What
  /// submit_ms is more is a software driver's, which moves every vertex to its place before it answers.
  double hand_over_ms = 0;
  double raster_ms = 0;  // by the clock: until they were pixels, which in software is most of the frame
  double whole_ms = 0;   // by the clock

  std::uint32_t vertices = 0, draws = 0;

  /// Processor time that the user interface took.
  double ui_ms() const { return build_ms + submit_ms; }
  /// The part of it that is not a software driver's.
  double own_ms() const { return build_ms + hand_over_ms; }
};

/// By the clock, what came before the first frame.
struct StartTimes {
  double display_ms = 0;  // reaching the display
  double context_ms = 0;  // a window with OpenGL: loading its driver
  double fonts_ms = 0;    // drawing the glyphs
};

class Window {
 public:
  /// Fails without a display or OpenGL 3.
  static Result<std::unique_ptr<Window>> open(const WindowOptions& options);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  float scale() const { return scale_; }
  /// Everything so many times as large as before any zoom, from the next frame on.
  void set_zoom(float zoom) { wanted_scale_ = base_scale_ * zoom; }
  const StartTimes& start_times() const { return start_times_; }
  /// Whether frames measure FrameTimes::hand_over_ms, which costs that time.
  void measure_hand_over(bool wanted) { measures_hand_over_ = wanted; }
  /// Draws a frame; `contents` makes the ImGui calls.
  FrameTimes frame(const Theme& theme, const std::function<void()>& contents);
  /// Waits for something to happen, at most so long.
  void wait(double seconds);
  /// Waits four times as long as the last frame took, at most a tenth of a second, or until something happens: while a
  /// file is read, so that drawing in software leaves its threads the processors.
  void rest();
  /// Ends a wait(), from any thread; nothing happens while there is no window.
  static void wake();
  bool should_close() const;

  // Since the last frame.
  const std::vector<KeyPress>& keys() const { return keys_; }
  /// Whether Enter was one of them, on either part of the keyboard.
  bool entered() const;
  /// How many keys were pressed so far.
  std::uint64_t key_count() const { return key_count_; }
  /// How often a button of the mouse went down or up, or its wheel turned, so far; 0 in a page.
  std::uint64_t mouse_count() const { return mouse_count_; }
  const std::vector<unsigned>& characters() const { return characters_; }
  const std::vector<std::string>& dropped_files() const { return dropped_; }
  /// Held down, and not pressed as a part of Ctrl+key or Alt+key, of which either may be let go of first.
  bool is_held_alone(int key) const;

  /// The last frame, RGBA from the top.
  std::vector<std::uint8_t> pixels(std::uint32_t& width, std::uint32_t& height) const;

 private:
  Window() = default;
  Result<void> create(const WindowOptions& options);
  void load_fonts() const;
  void apply_zoom();
  void begin_imgui_frame();
  void make_picture();
  static Window& of(GLFWwindow* window);

  GLFWwindow* window_ = nullptr;
  std::unique_ptr<OffscreenContext> context_;  // where there is no display; else GLFW's
  bool has_imgui_ = false;
  bool offscreen_ = false;
  int width_ = 0, height_ = 0;
  float scale_ = 1, base_scale_ = 1, wanted_scale_ = 1;
  StartTimes start_times_;
  double last_frame_ms_ = 0;
  bool measures_hand_over_ = false;
  std::uint32_t framebuffer_ = 0, colour_ = 0;  // when off-screen
  std::vector<KeyPress> keys_, new_keys_;
  int new_left_presses_ = 0;  // of the mouse
  std::set<int> held_alone_;
  std::uint64_t key_count_ = 0, mouse_count_ = 0;
  std::vector<unsigned> characters_, new_characters_;
  std::vector<std::string> dropped_, new_dropped_;
};

}  // namespace memreel::viewer
