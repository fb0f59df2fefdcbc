// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/headless.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "viewer/app/frames.h"
#include "viewer/app/png.h"

namespace memreel::viewer {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::minutes patience{30};  // a hundred million events in software on a busy machine
constexpr int settled = 3;  // frames: a job's result is drawn in the next, and laid out in the one after

/// Timings of one kind of frame.
class Frames {
 public:
  void add(double value) { values_.push_back(value); }
  Spread spread() {
    if (values_.empty()) return {};
    std::ranges::sort(values_);
    const auto at = [&](double share) {
      return values_[static_cast<std::size_t>(share * static_cast<double>(values_.size() - 1))];
    };
    return {.p50 = at(0.5), .p99 = at(0.99), .max = values_.back()};
  }

 private:
  std::vector<double> values_;
};

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Draws until nothing is left to do. Fails if the file can't be read, or if this takes too long.
Result<void> settle(Window& window, Viewer& viewer) {
  const auto start = Clock::now();
  for (int idle = 0; idle < settled;) {
    window.frame(viewer.theme(), [&] { viewer.draw(); });
    idle = viewer.is_idle() ? idle + 1 : 0;
    if (const SourceStatus status = viewer.status(); status.stage == Stage::failed && status.error)
      return *status.error;
    if (Clock::now() - start > patience) return Error{.what = "the picture was not ready in time"};
    if (idle == 0) window.rest();
  }
  return {};
}

Result<void> save(const Window& window, const std::filesystem::path& file, bool few_colours = false) {
  std::uint32_t width = 0, height = 0;
  const std::vector<std::uint8_t> pixels = window.pixels(width, height);
  return write_png(file, width, height, pixels, few_colours);
}

}  // namespace

Result<void> take_screenshot(Window& window, Viewer& viewer, const std::filesystem::path& file, bool few_colours) {
  if (auto done = settle(window, viewer); !done) return done;
  return save(window, file, few_colours);
}

Result<void> take_screenshots(Window& window, Viewer& viewer, const std::filesystem::path& folder, bool few_colours) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return Error{.what = "can't be made: " + problem.message(), .where = folder.string()};
  if (auto done = settle(window, viewer); !done) return done;
  viewer.select_largest();
  viewer.run_policies();
  std::vector<std::string_view> panes(fixed_names.begin(), fixed_names.end());
  panes.insert(panes.end(), tab_names.begin(), tab_names.end());
  for (const std::string_view pane : panes) {
    if (!viewer.has_tab(pane)) continue;
    viewer.maximise(pane);
    const std::filesystem::path file = folder / (std::string(pane) + ".png");
    if (auto done = take_screenshot(window, viewer, file, few_colours); !done) return done;
  }
  return {};
}

Result<BenchResult> run_bench(Window& window, Viewer& viewer, const std::filesystem::path& file, std::uint64_t frames,
                              double window_ms) {
  BenchResult result{.frames = frames, .window_ms = window_ms, .window_parts = window.start_times()};
  const auto start = Clock::now();
  const auto draw = [&] { return window.frame(viewer.theme(), [&] { viewer.draw(); }); };
  window.draw_always(true);
  const auto draw_until = [&](const auto& reached) -> Result<void> {
    const auto begin = Clock::now();
    for (;;) {
      const SourceStatus status = viewer.status();
      if (status.stage == Stage::failed && status.error) return *status.error;
      if (reached(status)) return {};
      if (Clock::now() - begin > patience) return Error{.what = "the trace was not read in time"};
      window.rest();
      draw();
    }
  };
  const auto has_events = [&](const SourceStatus&) { return viewer.shows_events(); };
  draw();
  result.first_frame_ms = window_ms + milliseconds_since(start);
  result.resident_at_start_bytes = resident_bytes();
  if (auto done = draw_until(has_events); !done) return std::move(done).error();
  result.first_paint_ms = window_ms + milliseconds_since(start);
  auto done = draw_until([&](const SourceStatus&) { return viewer.document().complete; });
  if (!done) return std::move(done).error();
  result.complete_ms = window_ms + milliseconds_since(start);
  if (auto ready = settle(window, viewer); !ready) return std::move(ready).error();

  Selection& selection = viewer.selection();
  Frames ui, own, build, hand_over, submit, vertices, draws, whole, raster, scrub, scrub_own, table, table_own;
  window.measure_hand_over(true);
  {
    const Document& document = viewer.document();
    // Zooms in frame by frame to a ten-thousandth of the trace, pans, and zooms out again.
    selection.look_at_all(document);
    const double factor = std::pow(1e-4, 3.0 / static_cast<double>(std::max<std::uint64_t>(frames, 3)));
    for (std::uint64_t i = 0; i < frames; ++i) {
      const std::uint64_t third = 3 * i / frames;
      const Nanoseconds anchor = selection.view.begin + selection.view.length() / 3;
      if (third == 0) selection.zoom(document, factor, anchor);
      if (third == 1) selection.pan(document, 0.15);
      if (third == 2) selection.zoom(document, 1 / factor, anchor);
      const FrameTimes times = draw();
      ui.add(times.ui_ms());
      own.add(times.own_ms());
      build.add(times.build_ms);
      hand_over.add(times.hand_over_ms);
      vertices.add(times.vertices);
      draws.add(times.draws);
      submit.add(times.submit_ms);
      whole.add(times.whole_ms);
      raster.add(times.raster_ms);
    }
    // Moves the cursor across the whole trace and back.
    selection.look_at_all(document);
    viewer.show_tab("segments");
    const std::uint64_t steps = std::max<std::uint64_t>(frames / 2, 2);
    for (std::uint64_t i = 0; i < steps; ++i) {
      const double share = std::abs(1 - 2 * static_cast<double>(i) / static_cast<double>(steps - 1));
      selection.cursor = static_cast<std::uint32_t>(share * document.event_count());
      const FrameTimes times = draw();
      scrub.add(times.ui_ms());
      scrub_own.add(times.own_ms());
    }
    viewer.maximise("allocations");
    if (auto ready = settle(window, viewer); !ready) return std::move(ready).error();
    for (std::uint64_t i = 0; i < steps; ++i) {
      // Selecting a row scrolls to it.
      if (document.allocation_count() != 0)
        selection.select(document, static_cast<std::uint32_t>(i * document.allocation_count() / steps));
      const FrameTimes times = draw();
      table.add(times.ui_ms());
      table_own.add(times.own_ms());
    }
    viewer.maximise("");
    if (auto ready = settle(window, viewer); !ready) return std::move(ready).error();
    result.events = document.event_count();
    result.allocations = document.allocation_count();
  }
  result.ui = ui.spread();
  window.measure_hand_over(false);
  result.own = own.spread();
  result.build = build.spread();
  result.hand_over = hand_over.spread();
  result.vertices = vertices.spread();
  result.draws = draws.spread();
  result.submit = submit.spread();
  result.whole = whole.spread();
  result.raster = raster.spread();
  result.scrub = scrub.spread();
  result.scrub_own = scrub_own.spread();
  result.table = table.spread();
  result.table_own = table_own.spread();
  result.resident_bytes = resident_bytes();

  const auto again = Clock::now();
  viewer.close();
  viewer.open(file);
  if (auto shown = draw_until(has_events); !shown) return std::move(shown).error();
  result.reopened_ms = milliseconds_since(again);
  return result;
}

Control::Control()
    : reader_([this] {
        for (std::string line; std::getline(std::cin, line);) {
          {
            const std::lock_guard lock(mutex_);
            lines_.push_back(line);
          }
          Window::wake();
          if (line.find("\"quit\"") != std::string::npos) return;
        }
        const std::lock_guard lock(mutex_);
        ended_ = true;
      }) {}

Control::~Control() {
  // A read of standard input can't be interrupted; the thread ends with its writer or with the process.
  if (ended_)
    reader_.join();
  else
    reader_.detach();
}

bool Control::serve(Window& window, Viewer& viewer) {
  // Input of this frame may take effect in the next.
  const std::uint64_t inputs = window.key_count() + window.mouse_count();
  const bool is_quiet = inputs == std::exchange(inputs_, inputs);
  idle_frames_ = is_quiet && viewer.is_idle() ? idle_frames_ + 1 : 0;
  for (;;) {
    std::string line;
    {
      const std::lock_guard lock(mutex_);
      if (lines_.empty()) return !ended_;
      line = lines_.front();
    }
    const Json request = Json::parse(line, nullptr, false);
    const auto wanted = request.is_object() ? request.find("do") : request.end();
    const std::string what =
        request.is_object() && wanted != request.end() && wanted->is_string() ? wanted->get<std::string>() : "";
    if (!std::exchange(waiting_, true)) idle_frames_ = 0;  // earlier input may arrive with the next frame
    if (what == "wait" && idle_frames_ < settled) return true;
    waiting_ = false;
    {
      const std::lock_guard lock(mutex_);
      lines_.erase(lines_.begin());
    }
    Json answer{{"done", what}};
    if (what == "state" || what == "wait") {
      answer = viewer.state();
    } else if (what == "commands") {
      answer = viewer.commands();
    } else if (what == "screenshot" && request.contains("file") && request["file"].is_string()) {
      const auto saved = save(window, request["file"].get<std::string>());
      answer["error"] = saved ? Json(nullptr) : Json(saved.error().message());
    } else if (what == "open" && request.contains("file") && request["file"].is_string()) {
      viewer.open(request["file"].get<std::string>());
    } else if (what != "quit") {
      answer = {{"error", "unknown request: " + line}};
    }
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    if (what == "quit") {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      return false;
    }
  }
}

}  // namespace memreel::viewer
