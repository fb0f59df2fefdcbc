// SPDX-License-Identifier: Apache-2.0
// Non-interactive use: screenshots and their files, benchmarks, and tests that query what is on screen.
#pragma once

#include <filesystem>
#include <mutex>
#include <span>
#include <thread>

#include "formats/model/result.h"
#include "viewer/app/viewer.h"
#include "viewer/app/window.h"

namespace memreel::viewer {

/// Draws frames until everything requested is shown, and writes the last one. `few_colours`: see write_png().
Result<void> take_screenshot(Window& window, Viewer& viewer, const std::filesystem::path& file, bool few_colours);
/// One screenshot of each pane, named after it; with the largest allocation selected and policies replayed.
Result<void> take_screenshots(Window& window, Viewer& viewer, const std::filesystem::path& folder, bool few_colours);

/// Statistics over a number of frames, in milliseconds unless stated otherwise.
struct Spread {
  double p50 = 0, p99 = 0, max = 0;
};

struct BenchResult {
  std::uint64_t frames = 0;
  // While panning and zooming. CPU time of the window's thread and its parts (FrameTimes); `own` estimates the cost of
  // a frame when a graphics card draws it.
  Spread ui, own, build, hand_over, submit;
  Spread vertices, draws;  // counts: how many vertices, in how many calls
  // Wall time: the whole frame, and the part for rasterization, which may be done in software.
  Spread whole, raster;
  // CPU time of frames in which the cursor jumped, and in which the table of allocations was scrolled.
  Spread scrub, scrub_own, table, table_own;
  // Wall time from the start of the program.
  double window_ms = 0;       // until there was a window
  StartTimes window_parts;    // of window_ms
  double first_frame_ms = 0;  // until anything was shown
  double first_paint_ms = 0;  // until events were shown
  double complete_ms = 0;     // until everything was read
  double reopened_ms = 0;     // from reopening the file until its events were shown
  std::uint64_t events = 0, allocations = 0;
  std::uint64_t resident_at_start_bytes = 0;  // after the first frame: drivers, glyphs, the program
  std::uint64_t resident_bytes = 0;
};

/// Pans and zooms `file` by a script for `frames` frames. `window_ms`: how long the program ran before.
Result<BenchResult> run_bench(Window& window, Viewer& viewer, const std::filesystem::path& file, std::uint64_t frames,
                              double window_ms);

/// Answers one line of JSON on standard output to each on standard input: {"do": "state" | "wait" | "commands" |
/// "screenshot" | "open" | "quit"}.
class Control {
 public:
  Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();

  /// Answers the requests that can be answered now. Returns false when the viewer should quit.
  bool serve(Window& window, Viewer& viewer);
  /// Whether a request waits for frames to come.
  bool is_asked() const { return waiting_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  bool ended_ = false;
  bool waiting_ = false;      // the first request was seen but not yet answered
  int idle_frames_ = 0;       // since then, without input or work
  std::uint64_t inputs_ = 0;  // key presses and mouse button events so far
  std::thread reader_;
};

// Screenshots as files, with few colours where that makes them small.

struct Paletted {
  std::vector<std::uint32_t> colours;  // 0xRRGGBB, at most 64
  std::vector<std::uint8_t> pixels;    // index into colours
};

/// Exact if the picture has at most 64 colours. Else half of the palette goes to the most frequent, so that backgrounds
/// and areas keep their colours; the others share the rest by median cut (Heckbert 1982). `rgba`: four bytes a pixel.
Paletted with_palette(std::span<const std::uint8_t> rgba);

/// Writes RGBA pixels, row by row from the top, as a PNG without alpha. An incomplete file is removed.
/// `few_colours`: at most 64, which makes files several times smaller.
Result<void> write_png(const std::filesystem::path& path, std::uint32_t width, std::uint32_t height,
                       std::span<const std::uint8_t> rgba, bool few_colours = false);

}  // namespace memreel::viewer
