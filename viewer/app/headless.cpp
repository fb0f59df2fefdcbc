// SPDX-License-Identifier: Apache-2.0
#include "viewer/app/headless.h"

#include <unistd.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <unordered_map>

#include "formats/writer/trace_writer.h"
#include "viewer/app/frames.h"

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

namespace {

constexpr std::size_t most_colours = 64, most_exact = 32;

struct Counted {
  std::uint32_t colour = 0;
  std::uint64_t count = 0;
};
using Box = std::span<Counted>;

unsigned channel(std::uint32_t colour, unsigned shift) { return (colour >> shift) & 0xFFU; }

/// The largest extent of a box's colours over the channels.
std::pair<unsigned, unsigned> widest(Box box) {
  std::pair<unsigned, unsigned> best{0, 16};
  for (const unsigned shift : {16U, 8U, 0U}) {
    const auto [least, most] =
        std::ranges::minmax_element(box, {}, [&](const Counted& c) { return channel(c.colour, shift); });
    const unsigned width = channel(most->colour, shift) - channel(least->colour, shift);
    if (width > best.first) best = {width, shift};
  }
  return best;
}

std::uint32_t mean(Box box) {
  std::uint64_t total = 0, red = 0, green = 0, blue = 0;
  for (const Counted& c : box) {
    total += c.count;
    red += c.count * channel(c.colour, 16);
    green += c.count * channel(c.colour, 8);
    blue += c.count * channel(c.colour, 0);
  }
  return static_cast<std::uint32_t>(((red / total) << 16U) | ((green / total) << 8U) | (blue / total));
}

/// Repeatedly splits the box with the largest extent at the median of its pixels.
std::vector<Box> cut(std::vector<Counted>& colours, std::size_t wanted) {
  std::vector<Box> boxes{Box(colours)};
  while (boxes.size() < wanted) {
    const auto box = std::ranges::max_element(boxes, {}, [](Box b) { return widest(b).first; });
    const auto [width, shift] = widest(*box);
    if (width == 0) break;
    std::ranges::sort(*box, {}, [shift = shift](const Counted& c) { return channel(c.colour, shift); });
    std::uint64_t total = 0, before = 0;
    for (const Counted& c : *box) total += c.count;
    std::size_t at = 0;
    while (at + 2 < box->size() && before + (*box)[at].count < total / 2) before += (*box)[at++].count;
    const Box first = box->first(at + 1), second = box->subspan(at + 1);
    *box = first;
    boxes.push_back(second);
  }
  return boxes;
}

}  // namespace

Paletted with_palette(std::span<const std::uint8_t> rgba) {
  const auto colour_at = [&](std::size_t pixel) {
    return static_cast<std::uint32_t>((rgba[4 * pixel] << 16U) | (rgba[4 * pixel + 1] << 8U) | rgba[4 * pixel + 2]);
  };
  std::unordered_map<std::uint32_t, std::uint64_t> counts;
  for (std::size_t i = 0; i < rgba.size() / 4; ++i) ++counts[colour_at(i)];
  std::vector<Counted> colours;
  for (const auto& [colour, count] : counts) colours.push_back({colour, count});
  std::ranges::sort(colours, [](const Counted& a, const Counted& b) {
    return a.count != b.count ? a.count > b.count : a.colour < b.colour;
  });

  Paletted picture;
  std::unordered_map<std::uint32_t, std::uint8_t> place;
  const std::size_t exact = colours.size() <= most_colours ? colours.size() : most_exact;
  for (std::size_t i = 0; i < exact; ++i) {
    place[colours[i].colour] = static_cast<std::uint8_t>(i);
    picture.colours.push_back(colours[i].colour);
  }
  std::vector<Counted> others(colours.begin() + static_cast<std::ptrdiff_t>(exact), colours.end());
  if (!others.empty())
    for (const Box box : cut(others, most_colours - exact)) {
      for (const Counted& c : box) place[c.colour] = static_cast<std::uint8_t>(picture.colours.size());
      picture.colours.push_back(mean(box));
    }
  picture.pixels.reserve(rgba.size() / 4);
  for (std::size_t i = 0; i < rgba.size() / 4; ++i) picture.pixels.push_back(place[colour_at(i)]);
  return picture;
}

namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xFFU);
  return bytes;
}

/// Chunks: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", section 5.3.
std::string chunk(std::string_view type, const std::string& data) {
  std::string body = std::string(type) + data;
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(crc));
}

/// Each row is encoded as the difference from the one above (filter 2): areas of one colour become zeros.
std::vector<std::uint8_t> differences(std::uint32_t width, std::uint32_t height, std::span<const std::uint8_t> rgba) {
  std::vector<std::uint8_t> rows;
  rows.reserve(std::size_t{height} * (std::size_t{width} * 3 + 1));
  for (std::size_t y = 0; y < height; ++y) {
    rows.push_back(2);
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t at = (y * width + x) * 4 + c;
        const std::uint8_t above = y == 0 ? 0 : rgba[at - std::size_t{width} * 4];
        rows.push_back(static_cast<std::uint8_t>(rgba[at] - above));
      }
  }
  return rows;
}

}  // namespace

Result<void> write_png(const std::filesystem::path& path, std::uint32_t width, std::uint32_t height,
                       std::span<const std::uint8_t> rgba, bool few_colours) {
  std::vector<std::uint8_t> rows;
  std::string palette;
  if (few_colours) {
    const Paletted picture = with_palette(rgba);
    for (const std::uint32_t colour : picture.colours) palette += big_endian(colour).substr(1);
    for (std::size_t y = 0; y < height; ++y) {
      rows.push_back(0);
      rows.insert(rows.end(), picture.pixels.begin() + static_cast<std::ptrdiff_t>(y * width),
                  picture.pixels.begin() + static_cast<std::ptrdiff_t>((y + 1) * width));
    }
  } else {
    rows = differences(width, height, rgba);
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string compressed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(compressed.data()), &size, rows.data(), static_cast<uLong>(rows.size()),
                few_colours ? 9 : 6) != Z_OK)  // 9: another 2 % off a screenshot, for eight times the work
    return Error{.what = "can't compress the picture", .where = path.string()};
  compressed.resize(size);

  const std::string header = big_endian(width) + big_endian(height) +
                             std::string(few_colours ? "\x08\x03\x00\x00\x00" : "\x08\x02\x00\x00\x00", 5);
  return write_whole(path, std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", header) +
                               (few_colours ? chunk("PLTE", palette) : "") + chunk("IDAT", compressed) +
                               chunk("IEND", ""));
}

}  // namespace memreel::viewer
