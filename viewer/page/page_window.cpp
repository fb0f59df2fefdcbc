// SPDX-License-Identifier: Apache-2.0
// The window is the page's canvas: browser events, WebGL, and the page's embedded fonts.

#include "viewer/page/page_window.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_opengl3.h>
#include <emscripten/emscripten.h>
#include <emscripten/html5.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "viewer/app/frames.h"
#include "viewer/app/window.h"
#include "viewer/page/touch.h"

namespace memreel::viewer {

namespace {

constexpr std::array<std::pair<std::string_view, int>, 38> names{{
    {"ArrowDown", GLFW_KEY_DOWN},
    {"ArrowLeft", GLFW_KEY_LEFT},
    {"ArrowRight", GLFW_KEY_RIGHT},
    {"ArrowUp", GLFW_KEY_UP},
    {"AltLeft", GLFW_KEY_LEFT_ALT},
    {"AltRight", GLFW_KEY_RIGHT_ALT},
    {"Backquote", GLFW_KEY_GRAVE_ACCENT},
    {"Backslash", GLFW_KEY_BACKSLASH},
    {"Backspace", GLFW_KEY_BACKSPACE},
    {"BracketLeft", GLFW_KEY_LEFT_BRACKET},
    {"BracketRight", GLFW_KEY_RIGHT_BRACKET},
    {"Comma", GLFW_KEY_COMMA},
    {"ControlLeft", GLFW_KEY_LEFT_CONTROL},
    {"ControlRight", GLFW_KEY_RIGHT_CONTROL},
    {"Delete", GLFW_KEY_DELETE},
    {"End", GLFW_KEY_END},
    {"Enter", GLFW_KEY_ENTER},
    {"Equal", GLFW_KEY_EQUAL},
    {"Escape", GLFW_KEY_ESCAPE},
    {"Home", GLFW_KEY_HOME},
    {"Insert", GLFW_KEY_INSERT},
    {"Minus", GLFW_KEY_MINUS},
    {"NumpadAdd", GLFW_KEY_KP_ADD},
    {"NumpadEnter", GLFW_KEY_KP_ENTER},
    {"NumpadSubtract", GLFW_KEY_KP_SUBTRACT},
    {"PageDown", GLFW_KEY_PAGE_DOWN},
    {"PageUp", GLFW_KEY_PAGE_UP},
    {"Period", GLFW_KEY_PERIOD},
    {"Quote", GLFW_KEY_APOSTROPHE},
    {"Semicolon", GLFW_KEY_SEMICOLON},
    {"ShiftLeft", GLFW_KEY_LEFT_SHIFT},
    {"ShiftRight", GLFW_KEY_RIGHT_SHIFT},
    {"Slash", GLFW_KEY_SLASH},
    {"Space", GLFW_KEY_SPACE},
    {"Tab", GLFW_KEY_TAB},
    {"ContextMenu", GLFW_KEY_MENU},
    {"F10", GLFW_KEY_F10},
    {"F1", GLFW_KEY_F1},
}};

}  // namespace

int key_of_code(std::string_view code) {
  const auto is_one_of = [&](std::string_view kind, char first, char last) {
    return code.size() == kind.size() + 1 && code.starts_with(kind) && code.back() >= first && code.back() <= last;
  };
  if (is_one_of("Key", 'A', 'Z') || is_one_of("Digit", '0', '9')) return code.back();  // GLFW key codes
  if (is_one_of("Numpad", '0', '9')) return GLFW_KEY_KP_0 + (code.back() - '0');
  const auto found = std::ranges::find(names, code, &std::pair<std::string_view, int>::first);
  return found == names.end() ? 0 : found->second;
}

}  // namespace memreel::viewer

namespace {

constexpr const char* canvas = "#canvas";

}  // namespace

/// The window's state besides Dear ImGui's.
struct GLFWwindow {
  EMSCRIPTEN_WEBGL_CONTEXT_HANDLE context = 0;
  double last_frame = 0;  // in seconds
  memreel::viewer::Touch touch;
};

namespace memreel::viewer {
namespace {

constexpr float text_size = 14.5F;

/// Whether a frame is due. A page has one thread.
bool is_awake = true;

void take_modifiers(bool control, bool shift, bool alt) {
  ImGuiIO& io = ImGui::GetIO();
  io.KeyCtrl = control;
  io.KeyShift = shift;
  io.KeyAlt = alt;
}

int modifiers_of(const EmscriptenKeyboardEvent& event) {
  return (event.ctrlKey != 0 || event.metaKey != 0 ? GLFW_MOD_CONTROL : 0) |
         (event.shiftKey != 0 ? GLFW_MOD_SHIFT : 0) | (event.altKey != 0 ? GLFW_MOD_ALT : 0);
}

/// The character typed by a key; 0: none.
unsigned character_of(const EmscriptenKeyboardEvent& event) {
  const auto* const key = reinterpret_cast<const unsigned char*>(event.key);
  const std::size_t length = std::strlen(event.key);
  if (length == 1) return key[0];
  if (length == 2 && key[0] >= 0xC0) return (key[0] & 0x1FU) << 6U | (key[1] & 0x3FU);
  if (length == 3 && key[0] >= 0xE0) return (key[0] & 0x0FU) << 12U | (key[1] & 0x3FU) << 6U | (key[2] & 0x3FU);
  return 0;  // a name, such as "Enter"
}

/// Dear ImGui's button numbers: the browser's 1 is the middle button.
std::size_t button_of(const EmscriptenMouseEvent& event) {
  return event.button == 1   ? ImGuiMouseButton_Middle
         : event.button == 2 ? ImGuiMouseButton_Right
                             : ImGuiMouseButton_Left;
}

/// Of the mouse, as of the last event.
ImVec2 pointer{-1, -1};

ImVec2 pixel_at(long x, long y) {
  const auto pixels = static_cast<float>(emscripten_get_device_pixel_ratio());
  return {static_cast<float>(x) * pixels, static_cast<float>(y) * pixels};
}

void take_place(const EmscriptenMouseEvent& event) {
  pointer = pixel_at(event.clientX, event.clientY);
  take_modifiers(event.ctrlKey != 0 || event.metaKey != 0, event.shiftKey != 0, event.altKey != 0);
}

/// What decides how the page is drawn, besides the viewer.
struct PageSize {
  int width = 0, height = 0;  // in pixels
  double pixel_ratio = 1;

  static PageSize now() {
    double width = 0, height = 0;
    emscripten_get_element_css_size(canvas, &width, &height);
    const double ratio = emscripten_get_device_pixel_ratio();
    return {.width = std::max(static_cast<int>(std::lround(width * ratio)), 1),
            .height = std::max(static_cast<int>(std::lround(height * ratio)), 1),
            .pixel_ratio = ratio};
  }
  /// Pixels per unit of length.
  float scale() const { return static_cast<float>(std::clamp(pixel_ratio, 1.0, 4.0)); }
  friend bool operator==(const PageSize&, const PageSize&) = default;
};

/// As of the last frame.
PageSize drawn_size;

const char* pointer_of(ImGuiMouseCursor cursor) {
  switch (cursor) {
    case ImGuiMouseCursor_TextInput:
      return "text";
    case ImGuiMouseCursor_ResizeEW:
      return "ew-resize";
    case ImGuiMouseCursor_ResizeNS:
      return "ns-resize";
    case ImGuiMouseCursor_ResizeAll:
      return "move";
    case ImGuiMouseCursor_Hand:
      return "pointer";
    default:
      return "default";
  }
}

void name_keys(ImGuiIO& io) {
  constexpr std::array<std::pair<ImGuiKey, int>, 20> keys{{{ImGuiKey_LeftArrow, GLFW_KEY_LEFT},
                                                           {ImGuiKey_RightArrow, GLFW_KEY_RIGHT},
                                                           {ImGuiKey_UpArrow, GLFW_KEY_UP},
                                                           {ImGuiKey_DownArrow, GLFW_KEY_DOWN},
                                                           {ImGuiKey_PageUp, GLFW_KEY_PAGE_UP},
                                                           {ImGuiKey_PageDown, GLFW_KEY_PAGE_DOWN},
                                                           {ImGuiKey_Home, GLFW_KEY_HOME},
                                                           {ImGuiKey_End, GLFW_KEY_END},
                                                           {ImGuiKey_Insert, GLFW_KEY_INSERT},
                                                           {ImGuiKey_Delete, GLFW_KEY_DELETE},
                                                           {ImGuiKey_Backspace, GLFW_KEY_BACKSPACE},
                                                           {ImGuiKey_Space, GLFW_KEY_SPACE},
                                                           {ImGuiKey_Enter, GLFW_KEY_ENTER},
                                                           {ImGuiKey_Escape, GLFW_KEY_ESCAPE},
                                                           {ImGuiKey_A, GLFW_KEY_A},
                                                           {ImGuiKey_C, GLFW_KEY_C},
                                                           {ImGuiKey_V, GLFW_KEY_V},
                                                           {ImGuiKey_X, GLFW_KEY_X},
                                                           {ImGuiKey_Y, GLFW_KEY_Y},
                                                           {ImGuiKey_Z, GLFW_KEY_Z}}};
  for (const auto& [name, key] : keys) io.KeyMap[name] = key;
}

}  // namespace

// A canvas is never off-screen.
OffscreenContext::~OffscreenContext() = default;

Result<std::unique_ptr<Window>> Window::open(const WindowOptions& options) {
  std::unique_ptr<Window> window(new Window);
  if (auto created = window->create(options); !created) return std::move(created).error();
  return window;
}

// One handler for all browser events.
// NOLINTNEXTLINE(readability-function-cognitive-complexity)
Result<void> Window::create(const WindowOptions& options) {
  window_ = new GLFWwindow;
  EmscriptenWebGLContextAttributes attributes;
  emscripten_webgl_init_context_attributes(&attributes);
  attributes.majorVersion = 2;
  attributes.alpha = attributes.depth = attributes.antialias = EM_FALSE;
  window_->context = emscripten_webgl_create_context(canvas, &attributes);
  if (window_->context <= 0)
    return Error{.what = "this browser has no WebGL 2",
                 .remedy = "enable its hardware acceleration, or use another browser"};
  emscripten_webgl_make_context_current(window_->context);

  const em_key_callback_func on_keydown = [](int, const EmscriptenKeyboardEvent* event, void* user) -> EM_BOOL {
    Window& window = *static_cast<Window*>(user);
    wake();
    const int key = key_of_code(event->code), modifiers = modifiers_of(*event);
    const bool is_command = (modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) != 0;
    ImGuiIO& io = ImGui::GetIO();
    take_modifiers((modifiers & GLFW_MOD_CONTROL) != 0, event->shiftKey != 0, event->altKey != 0);
    if (key != 0) {
      io.KeysDown[key] = true;
      if (!is_command) window.held_alone_.insert(key);
      window.new_keys_.push_back({key, modifiers});
      ++window.key_count_;
    }
    const unsigned character = is_command ? 0 : character_of(*event);
    if (character != 0) {
      window.new_characters_.push_back(character);
      io.AddInputCharacter(character);
    }
    // Pasted text arrives with an event that only the browser's default action for the key sends.
    const bool is_paste = (modifiers & GLFW_MOD_CONTROL) != 0 && key == GLFW_KEY_V;
    const bool is_viewers = key != 0 && (!is_command || key == GLFW_KEY_P || key == GLFW_KEY_O || key == GLFW_KEY_C ||
                                         key == GLFW_KEY_MINUS || key == GLFW_KEY_EQUAL || key == GLFW_KEY_0);
    return is_viewers && !is_paste ? EM_TRUE : EM_FALSE;
  };
  emscripten_set_keydown_callback(EMSCRIPTEN_EVENT_TARGET_WINDOW, this, EM_TRUE, on_keydown);
  const em_key_callback_func on_keyup = [](int, const EmscriptenKeyboardEvent* event, void* user) -> EM_BOOL {
    Window& window = *static_cast<Window*>(user);
    wake();
    take_modifiers(event->ctrlKey != 0 || event->metaKey != 0, event->shiftKey != 0, event->altKey != 0);
    if (const int key = key_of_code(event->code); key != 0) {
      ImGui::GetIO().KeysDown[key] = false;
      window.held_alone_.erase(key);
    }
    return EM_FALSE;
  };
  emscripten_set_keyup_callback(EMSCRIPTEN_EVENT_TARGET_WINDOW, this, EM_TRUE, on_keyup);
  const em_focus_callback_func on_blur = [](int, const EmscriptenFocusEvent*, void* user) -> EM_BOOL {
    // Releases outside the page are not reported.
    Window& window = *static_cast<Window*>(user);
    window.held_alone_.clear();
    std::ranges::fill(ImGui::GetIO().KeysDown, false);
    window.buttons_.clear();
    wake();
    return EM_FALSE;
  };
  emscripten_set_blur_callback(EMSCRIPTEN_EVENT_TARGET_WINDOW, this, EM_TRUE, on_blur);
  const em_mouse_callback_func on_mousedown = [](int, const EmscriptenMouseEvent* event, void* user) -> EM_BOOL {
    Window& window = *static_cast<Window*>(user);
    wake();
    take_place(*event);
    const std::size_t button = button_of(*event);
    window.buttons_.add(button, true, pointer);
    return button == ImGuiMouseButton_Middle ? EM_TRUE : EM_FALSE;
  };
  emscripten_set_mousedown_callback(canvas, this, EM_TRUE, on_mousedown);
  // On the whole page, because drags may leave the canvas.
  const em_mouse_callback_func on_mouseup = [](int, const EmscriptenMouseEvent* event, void* user) -> EM_BOOL {
    Window& window = *static_cast<Window*>(user);
    wake();
    take_place(*event);
    window.buttons_.add(button_of(*event), false, pointer);
    return EM_FALSE;
  };
  emscripten_set_mouseup_callback(EMSCRIPTEN_EVENT_TARGET_WINDOW, this, EM_TRUE, on_mouseup);
  const em_mouse_callback_func on_mousemove = [](int, const EmscriptenMouseEvent* event, void*) -> EM_BOOL {
    wake();
    take_place(*event);
    return EM_FALSE;
  };
  emscripten_set_mousemove_callback(EMSCRIPTEN_EVENT_TARGET_WINDOW, this, EM_TRUE, on_mousemove);
  const em_wheel_callback_func on_wheel = [](int, const EmscriptenWheelEvent* event, void*) -> EM_BOOL {
    wake();
    take_place(event->mouse);
    const double notch = event->deltaMode == DOM_DELTA_PIXEL ? 100 : 3;  // pixels, or lines
    ImGui::GetIO().MouseWheel -= static_cast<float>(event->deltaY / notch);
    ImGui::GetIO().MouseWheelH -= static_cast<float>(event->deltaX / notch);
    return EM_TRUE;
  };
  emscripten_set_wheel_callback(canvas, this, EM_TRUE, on_wheel);
  const em_touch_callback_func on_touch = [](int type, const EmscriptenTouchEvent* event, void* user) -> EM_BOOL {
    Window& window = *static_cast<Window*>(user);
    wake();
    const bool is_end = type == EMSCRIPTEN_EVENT_TOUCHEND || type == EMSCRIPTEN_EVENT_TOUCHCANCEL;
    std::vector<ImVec2> fingers;
    for (int i = 0; i < event->numTouches; ++i) {
      const EmscriptenTouchPoint& finger = event->touches[i];
      if (!is_end || finger.isChanged == 0) fingers.push_back(pixel_at(finger.clientX, finger.clientY));
    }
    const Touch::Mouse mouse =
        window.window_->touch.follow(fingers, window.base_scale_, emscripten_get_now() / 1e3, window.buttons_);
    pointer = mouse.pointer;
    ImGuiIO& io = ImGui::GetIO();
    io.KeysDown[GLFW_KEY_LEFT_SHIFT] = mouse.shift;
    io.MouseWheel += mouse.wheel;
    return EM_TRUE;  // no mouse events beside these
  };
  emscripten_set_touchstart_callback(canvas, this, EM_TRUE, on_touch);
  emscripten_set_touchmove_callback(canvas, this, EM_TRUE, on_touch);
  emscripten_set_touchend_callback(canvas, this, EM_TRUE, on_touch);
  emscripten_set_touchcancel_callback(canvas, this, EM_TRUE, on_touch);

  scale_ = base_scale_ = wanted_scale_ =
      options.scale > 0 ? static_cast<float>(options.scale) : PageSize::now().scale();
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  has_imgui_ = true;
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.BackendFlags |= ImGuiBackendFlags_HasMouseCursors;
  io.SetClipboardTextFn = [](void*, const char* text) { page_copy(text); };
  io.GetClipboardTextFn = [](void*) { return page_pasted(); };
  name_keys(io);
  load_fonts();
  io.Fonts->Build();
  if (!ImGui_ImplOpenGL3_Init("#version 300 es")) return Error{.what = "WebGL 2 can't be used"};
  return {};
}

Window::~Window() {
  emscripten_html5_remove_all_event_listeners();
  if (has_imgui_) {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui::DestroyContext();
  }
  if (window_->context > 0) emscripten_webgl_destroy_context(window_->context);
  delete window_;
}

void Window::load_fonts() const {
  static constexpr std::array<ImWchar, 9> letters{0x0020, 0x024F, 0x0370, 0x052F, 0x2010, 0x2030, 0x20A0, 0x20BF, 0};
  static constexpr std::array<ImWchar, 5> symbols{0x2190, 0x21FF, 0x25A0, 0x25FF, 0};
  const auto add = [size = std::floor(text_size * scale_)](std::span<const unsigned char> font, const ImWchar* range,
                                                           bool merge) {
    ImFontConfig config;
    config.MergeMode = merge;
    config.FontDataOwnedByAtlas = false;
    ImGui::GetIO().Fonts->AddFontFromMemoryTTF(const_cast<unsigned char*>(font.data()), static_cast<int>(font.size()),
                                               size, &config, range);
  };
  add(letters_font(), letters.data(), false);
  add(symbols_font(), symbols.data(), true);
}

void Window::apply_zoom() {
  if (scale_ == wanted_scale_) return;
  scale_ = wanted_scale_;
  ImGui::GetIO().Fonts->Clear();
  load_fonts();
  ImGui::GetIO().Fonts->Build();
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  ImGui_ImplOpenGL3_CreateFontsTexture();
}

void Window::begin_imgui_frame() {
  ImGuiIO& io = ImGui::GetIO();
  if (drawn_size.width != width_ || drawn_size.height != height_)
    emscripten_set_canvas_element_size(canvas, drawn_size.width, drawn_size.height);
  width_ = drawn_size.width;
  height_ = drawn_size.height;
  io.DisplaySize = {static_cast<float>(width_), static_cast<float>(height_)};
  const double now = emscripten_get_now() / 1e3;
  io.DeltaTime = static_cast<float>(std::clamp(now - std::exchange(window_->last_frame, now), 1e-4, 1.0));
  io.MousePos = pointer;
  new_frame(buttons_, 0, keys_, io.DeltaTime);
}

FrameTimes Window::frame(const Theme& theme, const std::function<void()>& contents) {
  const auto start = Clock::now();
  keys_ = std::exchange(new_keys_, {});
  characters_ = std::exchange(new_characters_, {});
  dropped_ = std::exchange(new_dropped_, {});
  drawn_size = PageSize::now();
  wanted_scale_ *= drawn_size.scale() / std::exchange(base_scale_, drawn_size.scale());
  apply_zoom();
  ImGui_ImplOpenGL3_NewFrame();
  apply(theme, scale_);
  begin_imgui_frame();
  contents();
  ImGui::Render();
  page_set_pointer(pointer_of(ImGui::GetMouseCursor()));
  FrameTimes times{.build_ms = milliseconds_since(start)};
  glViewport(0, 0, width_, height_);
  const ImVec4 panel = ImGui::ColorConvertU32ToFloat4(theme.panel);
  glClearColor(panel.x, panel.y, panel.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  times.whole_ms = milliseconds_since(start);
  return times;
}

void Window::wake() { is_awake = true; }

void Window::set_title(const std::string& title) { emscripten_set_window_title(title.c_str()); }

bool Window::entered() const {
  return std::ranges::any_of(
      keys_, [](const KeyPress& press) { return press.key == GLFW_KEY_ENTER || press.key == GLFW_KEY_KP_ENTER; });
}
bool Window::is_held_alone(int key) const { return held_alone_.contains(key); }

bool take_wake() {
  const bool is_other = drawn_size != PageSize::now();  // some changes of the pixel ratio come without an event
  return std::exchange(is_awake, false) || is_other;
}

}  // namespace memreel::viewer

double glfwGetTime() { return emscripten_get_now() / 1e3; }
