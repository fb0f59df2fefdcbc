// Without a person: pictures, measurements, and tests that ask what is on screen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "formats/model/result.h"
#include "viewer/app/viewer.h"
#include "viewer/app/window.h"

namespace memreel::viewer {

/// Draws frames until everything that was asked for is shown, and writes the last one.
Result<void> take_screenshot(Window& window, Viewer& viewer, const std::filesystem::path& file);

struct BenchResult {
  std::uint64_t frames = 0;
  double ui_p50_ms = 0, ui_p99_ms = 0, ui_max_ms = 0;
  double frame_p50_ms = 0, frame_p99_ms = 0;
  double scrub_p50_ms = 0, scrub_p99_ms = 0, scrub_max_ms = 0;  // frames in which the cursor jumped
  double table_p50_ms = 0, table_p99_ms = 0;                    // frames in which the table of allocations was scrolled
  double first_paint_ms = 0;  // from the start of the program to the first frame that shows events
  double complete_ms = 0;     // until everything was read
  std::uint64_t events = 0, allocations = 0;
  std::uint64_t resident_bytes = 0;
};

/// Pans and zooms by a script for `frames` frames. `started`: when the program did, in seconds of glfwGetTime()
/// (negative).
Result<BenchResult> run_bench(Window& window, Viewer& viewer, std::uint64_t frames, double before_window_ms);

/// Answers one line of JSON on standard output to each on standard input: {"do": "state" | "wait" | "screenshot" |
/// "quit"}.
class Control {
 public:
  Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();

  /// Answers what can be answered now. False when the viewer shall end.
  bool serve(Window& window, Viewer& viewer);

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  bool ended_ = false;
  bool waiting_ = false;  // the first request was seen, and is not answered
  int idle_frames_ = 0;   // since then
  std::thread reader_;
};

}  // namespace memreel::viewer
