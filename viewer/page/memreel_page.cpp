// SPDX-License-Identifier: Apache-2.0
// The viewer in a page, which puts a trace into its own file system and calls memreel_open().
#include <emscripten/emscripten.h>
#include <emscripten/html5.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "viewer/app/frames.h"
#include "viewer/app/viewer.h"
#include "viewer/app/window.h"
#include "viewer/page/page_window.h"

namespace memreel::viewer {
namespace {

constexpr Bytes page_memory_limit = 3_GiB;  // of 4 that a page can have

/// Lives as long as the page.
struct Page {
  std::unique_ptr<Window> window;
  std::unique_ptr<Viewer> viewer;
  bool prefers_dark = true;
  int idle_frames = 0;
  Clock::time_point drawn;
  std::string state;

  void frame() {
    // An unchanged picture is not redrawn.
    constexpr int settled = 30;
    constexpr double rest = 250;  // milliseconds
    // The user may choose otherwise, until the system changes.
    const bool dark = page_prefers_dark() != 0, changed = dark != std::exchange(prefers_dark, dark);
    if (changed) viewer->set_dark(dark);
    const bool woken = take_wake() || changed;
    // While work runs, only its progress changes, and with software rendering a frame takes a tenth of a second of CPU
    // time: finished work and user input wake the page.
    if (!woken && !viewer->is_idle() && milliseconds_since(drawn) < rest) return;
    idle_frames = woken || !viewer->is_idle() ? 0 : idle_frames + 1;
    if (idle_frames >= settled) return;
    window->frame(viewer->theme(), [&] { viewer->draw(); });
    drawn = Clock::now();
  }
};

Page& page() {
  static Page page;
  return page;
}

int run() {
  auto window = Window::open({});
  if (!window) {
    page_fail(window.error().message().c_str());
    return 2;
  }
  Settings settings;
  settings.tour_done = true;
  settings.dark = page().prefers_dark = page_prefers_dark() != 0;
  page().window = *std::move(window);
  page().viewer = std::make_unique<Viewer>(*page().window, settings, page_memory_limit);
  const auto each_frame = [](double, void*) -> EM_BOOL {
    page().frame();
    return EM_TRUE;
  };
  emscripten_request_animation_frame_loop(each_frame, nullptr);
  return 0;
}

}  // namespace
}  // namespace memreel::viewer

const char* memreel_state() {
  using memreel::viewer::page;
  page().state = page().viewer->state().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return page().state.c_str();
}

void memreel_open(const char* path) {
  using memreel::viewer::Source;
  using memreel::viewer::Window;
  // A file in the page's memory can't be opened again later, so it is not remembered.
  auto source = std::make_unique<Source>(
      std::filesystem::path(path), [] { Window::wake(); }, memreel::viewer::page_memory_limit);
  memreel::viewer::page().viewer->open(std::move(source), true);
}

int main() { return memreel::viewer::run(); }
