// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/window.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui_internal.h>  // for input that waits

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include "viewer/app/icon.h"
#include "viewer/app/screen_scale.h"

namespace memreel::viewer {
namespace {

constexpr float text_size = 14.5F;

/// The bundled font, else the first of these that the system has.
std::string find_font(const char* own, std::initializer_list<const char*> candidates) {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path installed = self.parent_path().parent_path() / "share/memreel/fonts" / own;
  if (std::filesystem::exists(installed, ignored)) return installed;
  for (const char* path : candidates)
    if (std::filesystem::exists(path, ignored)) return path;
  return {};
}

/// This thread's CPU time so far, in milliseconds.
double processor_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

/// CPU time of submitting `data` to OpenGL with nothing drawn.
double hand_over_ms(ImDrawData& data) {
  std::vector<unsigned> counts;
  const auto each = [&](const auto& see) {
    for (int l = 0; l < data.CmdListsCount; ++l)
      for (ImDrawCmd& command : data.CmdLists[l]->CmdBuffer) see(command.ElemCount);
  };
  each([&](unsigned& count) { counts.push_back(std::exchange(count, 0)); });
  const double begin = processor_ms();
  ImGui_ImplOpenGL3_RenderDrawData(&data);
  const double taken = processor_ms() - begin;
  auto next = counts.begin();
  each([&](unsigned& count) { count = *next++; });
  return taken;
}

/// GLFW reports errors to a callback.
std::string& glfw_problem() {
  static std::string problem;
  return problem;
}

// From GLFW 3.4, which may be the one loaded even if the header is older.
constexpr int platform_hint = 0x00050003, platform_null = 0x00060005, wayland_app_id = 0x00026001;

/// Of the window, as in viewer/desktop: desktops find its icon by it.
constexpr const char* window_class = "memreel-view";

bool has_glfw_3_4() {
  int major = 0, minor = 0, revision = 0;
  glfwGetVersion(&major, &minor, &revision);
  return major > 3 || minor >= 4;
}

/// Whether to draw without a display, which GLFW supports from 3.4 on.
bool draws_without_display(bool offscreen) {
  const auto is_set = [](const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
    return value != nullptr && *value != '\0';
  };
  return offscreen && !is_set("DISPLAY") && has_glfw_3_4();
}

/// No window: `problem` is GLFW's.
Error no_display(const std::string& problem) {
  const bool lacks_library = problem.find("Failed to load Xlib") != std::string::npos;
  return {.what = "can't open a window: " + problem,
          .remedy = lacks_library ? "install libX11 (Debian: libx11-6, libxcursor1, libgl1)"
                                  : "a display is needed; without a screen: xvfb-run -a memreel view ..."};
}

/// A window or an off-screen target, without OpenGL.
Error no_opengl(const std::string& problem, bool without_display) {
  return {.what = std::string(without_display ? "can't draw with OpenGL 3.3" : "can't open a window with OpenGL 3.3") +
                  ": " + problem,
          .remedy = without_display
                        ? "install EGL and Mesa's software driver (Debian: libegl1, libgl1, libgl1-mesa-dri)"
                        : "install a driver, or Mesa's software one (Debian: libgl1, libgl1-mesa-dri)"};
}

/// Other threads may call GLFW only between its initialization and its termination.
std::atomic<bool>& has_window() {
  static std::atomic<bool> exists = false;
  return exists;
}

/// `window`: null before there is one.
float scale_of_screen(GLFWwindow* window) {
  float desktop = 1, unused = 1;
  GLFWmonitor* const monitor = glfwGetPrimaryMonitor();
  if (window != nullptr)
    glfwGetWindowContentScale(window, &desktop, &unused);
  else if (monitor != nullptr)
    glfwGetMonitorContentScale(monitor, &desktop, &unused);
  const GLFWvidmode* const mode = monitor == nullptr ? nullptr : glfwGetVideoMode(monitor);
  int width = 0, height = 0;  // millimetres
  if (monitor != nullptr) glfwGetMonitorPhysicalSize(monitor, &width, &height);
  return screen_scale(desktop, mode == nullptr ? 0 : mode->height, height);
}

}  // namespace

Window& Window::of(GLFWwindow* window) { return *static_cast<Window*>(glfwGetWindowUserPointer(window)); }

Result<std::unique_ptr<Window>> Window::open(const WindowOptions& options) {
  std::unique_ptr<Window> window(new Window);
  if (auto created = window->create(options); !created) return std::move(created).error();
  return window;
}

Result<void> Window::create(const WindowOptions& options) {
  offscreen_ = options.offscreen;
  auto begin = Clock::now();
  glfwSetErrorCallback([](int, const char* text) { glfw_problem() = text; });
  const bool without_display = draws_without_display(offscreen_);
  if (without_display) glfwInitHint(platform_hint, platform_null);
  if (glfwInit() != GLFW_TRUE) return no_display(glfw_problem());
  start_times_.display_ms = milliseconds_since(begin);
  begin = Clock::now();
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  has_imgui_ = true;
  ImGui::GetIO().IniFilename = nullptr;  // memreel has its own settings file
  chosen_scale_ = options.scale > 0 ? static_cast<float>(options.scale)
                  : offscreen_      ? picture_scale(options.height)
                                    : 0;
  scale_ = chosen_scale_ > 0 ? chosen_scale_ : scale_of_screen(nullptr);
  // Beside the driver, which takes longer to load.
  std::jthread glyphs([this] { rasterize(); });
  const float rasterized = scale_ * raster_;
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  glfwWindowHint(GLFW_VISIBLE, offscreen_ ? GLFW_FALSE : GLFW_TRUE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  glfwWindowHintString(GLFW_X11_CLASS_NAME, window_class);
  glfwWindowHintString(GLFW_X11_INSTANCE_NAME, window_class);
  if (has_glfw_3_4()) glfwWindowHintString(wayland_app_id, window_class);
  if (without_display) {
    auto context = OffscreenContext::create();
    if (!context) return no_opengl(context.error().what, without_display);
    context_ = *std::move(context);
    glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
  }
  window_ =
      glfwCreateWindow(offscreen_ ? 64 : options.width, offscreen_ ? 64 : options.height, "memreel", nullptr, nullptr);
  if (window_ == nullptr) return no_opengl(glfw_problem(), without_display);
  if (!without_display) {
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(offscreen_ ? 0 : 1);
  }
  if (!offscreen_) {
    std::vector<unsigned char> pixels = icon_pixels();
    const GLFWimage icon{.width = icon_size, .height = icon_size, .pixels = pixels.data()};
    glfwSetWindowIcon(window_, 1, &icon);  // Wayland has none: there the desktop finds it by the class
  }
  glfwSetWindowUserPointer(window_, this);
  glfwSetKeyCallback(window_, [](GLFWwindow* w, int key, int, int action, int modifiers) {
    of(w).new_input_ = true;
    if (action == GLFW_RELEASE) {
      of(w).held_alone_.erase(key);
      return;
    }
    if ((modifiers & (GLFW_MOD_CONTROL | GLFW_MOD_ALT)) == 0) of(w).held_alone_.insert(key);
    of(w).new_keys_.push_back({key, modifiers});
    ++of(w).key_count_;
  });
  glfwSetCharCallback(window_, [](GLFWwindow* w, unsigned character) {
    of(w).new_input_ = true;
    of(w).new_characters_.push_back(character);
  });
  glfwSetCursorPosCallback(window_, [](GLFWwindow* w, double x, double y) {
    of(w).new_input_ = true;
    of(w).pointer_ = {static_cast<float>(x), static_cast<float>(y)};
  });
  glfwSetMouseButtonCallback(window_, [](GLFWwindow* w, int button, int action, int) {
    of(w).new_input_ = true;
    of(w).buttons_.add(static_cast<std::size_t>(button), action == GLFW_PRESS, of(w).pointer_);
    if (button == GLFW_MOUSE_BUTTON_LEFT && action == GLFW_PRESS) ++of(w).new_left_presses_;
    ++of(w).mouse_count_;
  });
  glfwSetScrollCallback(window_, [](GLFWwindow* w, double, double) {
    of(w).new_input_ = true;
    ++of(w).mouse_count_;
  });
  // On Wayland the picture may get its size after the screen's scale is told.
  glfwSetFramebufferSizeCallback(window_, [](GLFWwindow* w, int, int) {
    of(w).new_input_ = true;
    of(w).measure_screen();
  });
  glfwSetWindowRefreshCallback(window_, [](GLFWwindow* w) {
    of(w).new_input_ = true;
    of(w).shown_.forget();
  });
  glfwSetWindowContentScaleCallback(window_, [](GLFWwindow* w, float, float) {
    of(w).new_input_ = true;
    of(w).measure_screen();
  });
  glfwSetDropCallback(window_, [](GLFWwindow* w, int count, const char** paths) {
    of(w).new_input_ = true;
    for (int i = 0; i < count; ++i) of(w).new_dropped_.emplace_back(paths[i]);
  });

  start_times_.context_ms = milliseconds_since(begin);
  begin = Clock::now();
  glyphs.join();
  measure_screen();
  scale_ = wanted_scale_ = base_scale_;
  width_ = options.width;
  height_ = options.height;

  if (scale_ * raster_ != rasterized) {  // the window is on another screen than was thought
    ImGui::GetIO().Fonts->Clear();
    rasterize();
  }
  ImGui::GetIO().FontGlobalScale = 1 / raster_;
  start_times_.fonts_ms = milliseconds_since(begin);
  ImGui_ImplGlfw_InitForOpenGL(window_, true);
#if IMGUI_VERSION_NUM < 18700
  ImGui::GetIO().KeyMap[ImGuiKey_Tab] = -1;  // as in begin_imgui_frame()
#endif
  if (!ImGui_ImplOpenGL3_Init("#version 330")) return no_opengl("libGL.so.1 can't be loaded", without_display);
  if (offscreen_) make_picture();
  has_window().store(true, std::memory_order_release);
  return {};
}

Window::~Window() {
  has_window().store(false, std::memory_order_release);
  if (framebuffer_ != 0) {
    glDeleteFramebuffers(1, &framebuffer_);
    glDeleteTextures(1, &colour_);
  }
  if (has_imgui_) {
    if (ImGui::GetIO().BackendRendererUserData != nullptr) ImGui_ImplOpenGL3_Shutdown();
    if (ImGui::GetIO().BackendPlatformUserData != nullptr) ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
  }
  if (window_ != nullptr) glfwDestroyWindow(window_);
  glfwTerminate();
}

void Window::load_fonts() const {
  // Roboto, because its digits are equally wide, so that numbers line up.
  const std::string main =
      find_font("Roboto-Regular.ttf", {"/usr/share/fonts/truetype/roboto/unhinted/RobotoTTF/Roboto-Regular.ttf",
                                       "/usr/share/fonts/google-roboto/Roboto-Regular.ttf",
                                       "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
                                       "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"});
  const std::string signs = find_font("DejaVuSans.ttf", {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"});
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  ImGui::GetIO().FontGlobalScale = 1 / raster_;
  const float size = std::floor(text_size * scale_ * raster_);
  static constexpr std::array<ImWchar, 9> letters{0x0020, 0x024F, 0x0370, 0x052F, 0x2010, 0x2030, 0x20A0, 0x20BF, 0};
  static constexpr std::array<ImWchar, 5> symbols{0x2190, 0x21FF, 0x25A0, 0x25FF, 0};
  if (main.empty()) {
    ImFontConfig config;
    config.SizePixels = std::floor(13 * scale_ * raster_);
    atlas.AddFontDefault(&config);
    return;
  }
  atlas.AddFontFromFileTTF(main.c_str(), size, nullptr, letters.data());
  if (!signs.empty()) {
    ImFontConfig config;
    config.MergeMode = true;
    atlas.AddFontFromFileTTF(signs.c_str(), size, &config, symbols.data());
  }
}

void Window::rasterize() const {
  load_fonts();
#ifndef IMGUI_HAS_TEXTURES  // from 1.92 on, glyphs are rasterized on first use
  ImGui::GetIO().Fonts->Build();
  unsigned char* pixels = nullptr;
  int width = 0, height = 0;
  ImGui::GetIO().Fonts->GetTexDataAsRGBA32(&pixels, &width, &height);  // which are kept for the texture
#endif
}

void Window::make_picture() {
  glGenTextures(1, &colour_);
  glBindTexture(GL_TEXTURE_2D, colour_);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width_, height_, 0, GL_RGBA, GL_UNSIGNED_BYTE, nullptr);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glGenFramebuffers(1, &framebuffer_);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, colour_, 0);
}

void Window::measure_screen() {
  int picture = 0, window = 0, height = 0;
  glfwGetFramebufferSize(window_, &picture, &height);
  glfwGetWindowSize(window_, &window, &height);
  if (picture <= 0 || window <= 0) return;  // minimized
  const float raster = offscreen_ ? 1 : pixels_per_unit(picture, window);
  const float of_pixels = chosen_scale_ > 0 ? chosen_scale_ : scale_of_screen(window_);
  const float before = std::exchange(base_scale_, of_pixels / raster);
  wanted_scale_ *= base_scale_ / before;
  if (raster != raster_) scale_ = 0;  // the glyphs are to be rasterized again
  raster_ = raster;
}

void Window::apply_zoom() {
  if (scale_ == wanted_scale_) return;
  scale_ = wanted_scale_;
  shown_.forget();
  ImGui::GetIO().Fonts->Clear();
  rasterize();
#ifndef IMGUI_HAS_TEXTURES
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  ImGui_ImplOpenGL3_CreateFontsTexture();
#endif
}

void Window::begin_imgui_frame() {
#if IMGUI_VERSION_NUM >= 18700
  auto& events = ImGui::GetCurrentContext()->InputEventsQueue;
  const auto is_tab = [](const ImGuiInputEvent& event) {
    return event.Type == ImGuiInputEventType_Key && event.Key.Key == ImGuiKey_Tab;
  };
  events.erase(std::remove_if(events.begin(), events.end(), is_tab), events.end());  // it moves the viewer's own focus
#endif
  new_frame(buttons_, std::exchange(new_left_presses_, 0), keys_, between_polls_);
}

void Window::build(const Theme& theme, const std::function<void()>& contents) {
#if IMGUI_VERSION_NUM < 18700
  const auto has_more = [this] { return buttons_.pending(); };
#else
  const auto has_more = [] { return !ImGui::GetCurrentContext()->InputEventsQueue.empty(); };
#endif
  for (bool is_last = false; !is_last;) {
    is_last = !has_more();
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    if (offscreen_) {
      ImGuiIO& io = ImGui::GetIO();
      io.DisplaySize = {static_cast<float>(width_), static_cast<float>(height_)};
      io.DisplayFramebufferScale = {1, 1};
      io.MousePos = {-1, -1};
    } else {
      glfwGetFramebufferSize(window_, &width_, &height_);
    }
    apply(theme, scale_);
    begin_imgui_frame();
    contents();
    ImGui::Render();
    // What was pressed or dropped was seen.
    keys_.clear();
    characters_.clear();
    dropped_.clear();
  }
}

FrameTimes Window::frame(const Theme& theme, const std::function<void()>& contents) {
  glfwPollEvents();
  has_input_ = std::exchange(new_input_, false);
  const auto now = Clock::now();
  between_polls_ = std::min(std::chrono::duration<float>(now - std::exchange(polled_, now)).count(), 1.0F);
  keys_ = std::exchange(new_keys_, {});
  characters_ = std::exchange(new_characters_, {});
  dropped_ = std::exchange(new_dropped_, {});
  FrameTimes times;
  const auto start = Clock::now();
  const double begin = processor_ms();
  apply_zoom();
  build(theme, contents);
  times.build_ms = processor_ms() - begin;
  ImDrawData& data = *ImGui::GetDrawData();
  times.vertices = static_cast<std::uint32_t>(data.TotalVtxCount);
  for (int l = 0; l < data.CmdListsCount; ++l)
    times.draws += static_cast<std::uint32_t>(data.CmdLists[l]->CmdBuffer.Size);
  if (measures_hand_over_) times.hand_over_ms = hand_over_ms(data);
  times.drawn = shown_.replaced_by(data) || draws_always_;
  if (times.drawn) draw(data, theme, times);
  times.whole_ms = milliseconds_since(start);
  last_frame_ms_ = times.whole_ms;
  return times;
}

void Window::draw(ImDrawData& data, const Theme& theme, FrameTimes& times) {
  ++picture_count_;
  const double built = processor_ms();
  if (offscreen_) glBindFramebuffer(GL_FRAMEBUFFER, framebuffer_);
  glViewport(0, 0, width_, height_);
  const ImVec4 panel = ImGui::ColorConvertU32ToFloat4(theme.panel);
  glClearColor(panel.x, panel.y, panel.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(&data);
  times.submit_ms = processor_ms() - built;
  const auto submitted = Clock::now();
  if (offscreen_)
    glFinish();
  else
    glfwSwapBuffers(window_);
  times.raster_ms = milliseconds_since(submitted);
}

void Window::wait(double seconds) { glfwWaitEventsTimeout(seconds); }
void Window::rest() { wait(std::min(4 * last_frame_ms_, 100.0) / 1e3); }

void Window::wake() {
  if (has_window().load(std::memory_order_acquire)) glfwPostEmptyEvent();
}
void Window::set_title(const std::string& title) { glfwSetWindowTitle(window_, title.c_str()); }
bool Window::should_close() const { return glfwWindowShouldClose(window_) == GLFW_TRUE; }
bool Window::entered() const {
  return std::ranges::any_of(
      keys_, [](const KeyPress& press) { return press.key == GLFW_KEY_ENTER || press.key == GLFW_KEY_KP_ENTER; });
}
bool Window::is_held_alone(int key) const { return held_alone_.contains(key); }

std::vector<std::uint8_t> Window::pixels(std::uint32_t& width, std::uint32_t& height) const {
  width = static_cast<std::uint32_t>(width_);
  height = static_cast<std::uint32_t>(height_);
  const std::size_t row = std::size_t{width} * 4;
  std::vector<std::uint8_t> upside_down(row * height), pixels(row * height);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  if (!offscreen_) {
    // The screen can't be read back on every system, so draw the same commands again.
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    glReadBuffer(GL_BACK);
  }
  glReadPixels(0, 0, width_, height_, GL_RGBA, GL_UNSIGNED_BYTE, upside_down.data());
  for (std::size_t y = 0; y < height; ++y)
    std::copy_n(upside_down.begin() + static_cast<std::ptrdiff_t>((height - 1 - y) * row), row,
                pixels.begin() + static_cast<std::ptrdiff_t>(y * row));
  return pixels;
}

}  // namespace memreel::viewer
