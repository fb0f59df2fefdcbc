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

/// Draws frames until everything that was asked for is shown, and writes the last one. `few_colours`: see write_png().
Result<void> take_screenshot(Window& window, Viewer& viewer, const std::filesystem::path& file, bool few_colours);
/// One of each pane alone, named after it; with the largest allocation selected, and policies replayed.
Result<void> take_screenshots(Window& window, Viewer& viewer, const std::filesystem::path& folder, bool few_colours);

/// Of a number of frames, in milliseconds unless said otherwise.
struct Spread {
  double p50 = 0, p99 = 0, max = 0;
};

struct BenchResult {
  std::uint64_t frames = 0;
  // While panning and zooming. Processor time of the window's thread and its parts (FrameTimes); `own` is what a frame
  // costs where a graphics card draws it, as far as that is known without one.
  Spread ui, own, build, hand_over, submit;
  Spread vertices, draws;  // counts: how many vertices, in how many calls
  // By the clock: what the frame took, and how long of that the pixels did, which software may draw.
  Spread whole, raster;
  // Processor time of frames in which the cursor jumped, and in which the table of allocations was scrolled.
  Spread scrub, scrub_own, table, table_own;
  // By the clock, from the start of the program.
  double window_ms = 0;       // until there was a window
  StartTimes window_parts;    // of that
  double first_frame_ms = 0;  // until it had shown anything
  double first_paint_ms = 0;  // until it had shown events
  double complete_ms = 0;     // until everything was read
  double reopened_ms = 0;     // not from the start: from opening the file once more until its events were shown
  std::uint64_t events = 0, allocations = 0;
  std::uint64_t resident_at_start_bytes = 0;  // after the first frame: drivers, glyphs, the program
  std::uint64_t resident_bytes = 0;
};

/// Pans and zooms `file` by a script for `frames` frames. The program ran for `window_ms` before.
Result<BenchResult> run_bench(Window& window, Viewer& viewer, const std::filesystem::path& file, std::uint64_t frames,
                              double window_ms);

/// Answers one line of JSON on standard output to each on standard input: {"do": "state" | "wait" | "screenshot" |
/// "open" | "quit"}.
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
  bool waiting_ = false;      // the first request was seen, and is not answered
  int idle_frames_ = 0;       // since then
  std::uint64_t inputs_ = 0;  // keys and buttons of the mouse, so far
  std::thread reader_;
};

}  // namespace memreel::viewer
