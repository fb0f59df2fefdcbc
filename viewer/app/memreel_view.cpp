// SPDX-License-Identifier: Apache-2.0
// memreel-view: browses a trace. `memreel view` runs it.
#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "formats/command_line/combinations.h"
#include "formats/command_line/help.h"
#include "formats/command_line/option_values.h"
#include "formats/command_line/parse_errors.h"
#include "formats/model/files.h"
#include "memreel/version.h"
#include "viewer/app/frames.h"
#include "viewer/app/headless.h"
#include "viewer/app/layout.h"
#include "viewer/app/viewer.h"
#include "viewer/app/window.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {
namespace {

struct Arguments {
  std::vector<std::filesystem::path> traces;  // one file, or those of several ranks
  std::filesystem::path compare, screenshot;
  std::vector<std::string> to;  // for a prediction
  std::string capacity;
  std::string size = "1600x1000", max_memory, at, pane, split, colour, policies;
  double scale = 0;
  std::uint64_t bench_frames = 0;
  bool json = false, light = false, dark = false, control = false, few_colours = false;

  bool headless() const { return !screenshot.empty() || bench_frames != 0; }
};

constexpr std::string_view all_panes = "all";  // --pane

/// The window's, with a driver that draws in software.
constexpr Bytes memory_of_window = 512_MiB;

int fail(const Error& error) {
  std::cerr << error_line(error);
  return exit_unusable;
}

Result<std::pair<int, int>> parse_size(const std::string& text) {
  int width = 0, height = 0;
  const char* const end = text.data() + text.size();
  const auto [cross, problem] = std::from_chars(text.data(), end, width);
  if (problem == std::errc{} && cross != end && *cross == 'x') {
    const auto [rest, second] = std::from_chars(cross + 1, end, height);
    if (second == std::errc{} && rest == end && width >= 200 && height >= 150 && width <= 16384 && height <= 16384)
      return std::pair{width, height};
  }
  return Error{.what = "'" + text + "' is not a size",
               .where = "--size",
               .remedy = "write WIDTHxHEIGHT, e.g. 1600x1000; 200x150 to 16384x16384"};
}

Result<void> check_pane(const std::string& pane) {
  if (pane.empty() || pane == all_panes || is_tab(pane) || std::ranges::find(fixed_names, pane) != fixed_names.end())
    return {};
  std::string known;
  for (const std::string_view name : fixed_names) known += std::string(name) + ", ";
  for (const std::string_view name : tab_names) known += std::string(name) + ", ";
  known += all_panes;
  return Error{.what = "unknown pane '" + pane + "'", .where = "--pane", .remedy = "available: " + known};
}

nlohmann::json json_of(const Spread& spread) { return {{"p50", spread.p50}, {"p99", spread.p99}, {"max", spread.max}}; }

double per_event(const BenchResult& r) {
  return r.events == 0 ? 0.0 : static_cast<double>(r.resident_bytes) / static_cast<double>(r.events);
}

void print_json(const BenchResult& r) {
  const nlohmann::json document{{"schema", "memreel.view-bench/1"},
                                {"frames", r.frames},
                                {"events", r.events},
                                {"allocations", r.allocations},
                                {"ui_ms", json_of(r.ui)},
                                {"own_ms", json_of(r.own)},
                                {"build_ms", json_of(r.build)},
                                {"hand_over_ms", json_of(r.hand_over)},
                                {"submit_ms", json_of(r.submit)},
                                {"vertices", json_of(r.vertices)},
                                {"draw_calls", json_of(r.draws)},
                                {"frame_ms", json_of(r.whole)},
                                {"raster_ms", json_of(r.raster)},
                                {"scrub_ms", json_of(r.scrub)},
                                {"scrub_own_ms", json_of(r.scrub_own)},
                                {"table_ms", json_of(r.table)},
                                {"table_own_ms", json_of(r.table_own)},
                                {"start",
                                 {{"display_ms", r.window_parts.display_ms},
                                  {"context_ms", r.window_parts.context_ms},
                                  {"fonts_ms", r.window_parts.fonts_ms},
                                  {"window_ms", r.window_ms},
                                  {"first_frame_ms", r.first_frame_ms}}},
                                {"first_paint_ms", r.first_paint_ms},
                                {"reopened_ms", r.reopened_ms},
                                {"complete_ms", r.complete_ms},
                                {"resident_at_start_bytes", r.resident_at_start_bytes},
                                {"resident_bytes", r.resident_bytes},
                                {"resident_bytes_per_event", per_event(r)}};
  std::cout << document.dump(2) << '\n';
}

void print_text(const BenchResult& r) {
  const auto line = [](const char* what, const Spread& s) {
    std::printf("%-34s p50 %8.2f ms   p99 %8.2f ms   max %8.2f ms\n", what, s.p50, s.p99, s.max);
  };
  std::printf("%llu frames over %llu events\n", static_cast<unsigned long long>(r.frames),
              static_cast<unsigned long long>(r.events));
  line("window thread, CPU time", r.own);
  line("  building the frame", r.build);
  line("  handing it over, nothing drawn", r.hand_over);
  line("  cursor moved", r.scrub_own);
  line("  table scrolled", r.table_own);
  line("... with the software driver", r.ui);
  line("  handing it over", r.submit);
  line("  cursor moved", r.scrub);
  line("  table scrolled", r.table);
  line("whole frame, wall time", r.whole);
  line("  of that: waiting for pixels", r.raster);
  std::printf("%.0f vertices in %.0f calls, at most %.0f in %.0f\n", r.vertices.p50, r.draws.p50, r.vertices.max,
              r.draws.max);
  std::printf("window %.0f ms (display %.0f, OpenGL %.0f, fonts %.0f), first frame %.0f ms, first events %.0f ms\n",
              r.window_ms, r.window_parts.display_ms, r.window_parts.context_ms, r.window_parts.fonts_ms,
              r.first_frame_ms, r.first_paint_ms);
  std::printf("reopened: first events %.0f ms; all read %.0f ms\n", r.reopened_ms, r.complete_ms);
  std::printf("resident %.1f MiB (%.1f before anything was read), %.1f bytes per event\n",
              static_cast<double>(r.resident_bytes) / 1048576, static_cast<double>(r.resident_at_start_bytes) / 1048576,
              per_event(r));
}

/// The termination signal received; 0: none.
volatile std::sig_atomic_t ending_signal = 0;

/// Shuts down cleanly when the session or the user ends it, saving the settings first.
void end_on_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, [](int number) { ending_signal = number; });
}

void run_window(Window& window, Viewer& viewer, bool control) {
  std::unique_ptr<Control> controlled;
  if (control) controlled = std::make_unique<Control>();
  double idle_since = 0;
  while (!window.should_close() && !viewer.wants_to_quit() && ending_signal == 0) {
    const FrameTimes frame = window.frame(viewer.theme(), [&] { viewer.draw(); });
    if (controlled && !controlled->serve(window, viewer)) break;
    const Stage stage = viewer.status().stage;
    if (stage == Stage::importing || stage == Stage::reading) window.rest();
    idle_since = viewer.is_idle() && !window.has_input() ? idle_since + 1 : 0;
    if (controlled && controlled->is_asked())
      window.wait(0.002);
    else if (idle_since > 30)
      window.wait(0.25);
    else if (!frame.drawn)
      window.wait(0.016);  // as long as showing a picture takes, which waits for the screen
  }
}

int take_pictures(const Arguments& arguments, Window& window, Viewer& viewer) {
  const auto take = arguments.pane == all_panes ? take_screenshots : take_screenshot;
  if (arguments.pane == "policies") viewer.run_policies();
  if (const auto done = take(window, viewer, arguments.screenshot, arguments.few_colours); !done)
    return fail(done.error());
  return 0;
}

int measure(const Arguments& arguments, Window& window, Viewer& viewer, Clock::time_point started) {
  const double before = milliseconds_since(started);
  const auto result = run_bench(window, viewer, arguments.traces.front(), arguments.bench_frames, before);
  if (!result) return fail(result.error());
  arguments.json ? print_json(*result) : print_text(*result);
  return 0;
}

/// A single file as named, which may have been deleted since; for several files or directories, their recordings.
Result<std::vector<std::filesystem::path>> files_of(const Arguments& arguments) {
  std::error_code problem;
  const auto& named = arguments.traces;
  const bool as_named = named.empty() || (named.size() == 1 && !std::filesystem::is_directory(named.front(), problem));
  if (!as_named && arguments.bench_frames != 0)
    return Error{.what = "measures one file", .where = "--bench-frames", .remedy = "name only one"};
  auto files = as_named ? Result<std::vector<std::filesystem::path>>(named) : recordings_in(named);
  if (files && files->size() < 2 && arguments.pane == "ranks")
    return Error{
        .what = "there is only one recording", .where = "--pane ranks", .remedy = "name several, or a directory"};
  return files;
}

/// The inputs of a prediction; empty: files are only shown.
Result<std::vector<RecordingArgument>> recordings_of(const Arguments& arguments) {
  std::vector<std::string> words;
  for (const std::filesystem::path& trace : arguments.traces)
    if (is_recording_argument(trace.string())) words.push_back(trace.string());
  if (words.empty()) {
    if (arguments.to.empty() && arguments.capacity.empty()) return std::vector<RecordingArgument>();
    return Error{.what = "the values of the recordings are missing",
                 .where = arguments.to.empty() ? "--capacity" : "--to",
                 .remedy = "name recordings with their values: batch=1:a.pickle batch=2:b.pickle"};
  }
  if (words.size() != arguments.traces.size())
    return Error{.what = "some files have a value and others do not", .remedy = "write NAME=VALUE:FILE for each"};
  return parse_recordings(words);
}

int run(const Arguments& arguments, Clock::time_point started) {
  const auto size = parse_size(arguments.size);
  if (!size) return fail(size.error());
  const auto memory_limit = parse_memory_limit(arguments.max_memory);
  if (!memory_limit) return fail(memory_limit.error());
  if (const auto known = check_pane(arguments.pane); !known) return fail(known.error());
  const auto predicted = recordings_of(arguments);
  if (!predicted) return fail(predicted.error());
  const auto files =
      predicted->empty() ? files_of(arguments) : std::vector<std::filesystem::path>{predicted->back().file};
  if (!files) return fail(files.error());
  if (arguments.pane == "prediction" && predicted->empty())
    return fail({.what = "nothing to predict",
                 .where = "--pane prediction",
                 .remedy = "name recordings with their values: batch=1:a.pickle batch=2:b.pickle"});

  bound_memory({},
               memory_limit->count != 0 ? *memory_limit
                                        : default_memory_limit(Bytes{std::numeric_limits<std::uint64_t>::max()}, 1, {}),
               memory_of_window +
                   Bytes{16} * static_cast<std::uint64_t>(size->first) * static_cast<std::uint64_t>(size->second));

  const std::filesystem::path path =
      arguments.headless() || arguments.control ? std::filesystem::path() : settings_path();
  Settings settings = load_settings(path);
  if (path.empty()) settings.tour_done = true;
  if (arguments.light || arguments.dark) settings.dark = arguments.dark;

  std::vector<std::filesystem::path> inputs = *files;
  inputs.push_back(arguments.compare);
  std::error_code ignored;
  for (const std::filesystem::path& input : inputs)
    if (std::filesystem::equivalent(input, arguments.screenshot, ignored))
      return fail({.what = "the picture would overwrite the trace",
                   .where = arguments.screenshot.string(),
                   .remedy = "name another file"});

  for (const std::filesystem::path& input : inputs)
    if (!input.empty() && !std::filesystem::exists(input, ignored))
      return fail({.what = "can't be opened: No such file or directory", .where = input.string()});

  // Reading starts while the window is created, which takes longer than the first events.
  std::unique_ptr<Source> source;
  if (files->size() == 1 && predicted->empty())
    source = std::make_unique<Source>(
        files->front(), [] { Window::wake(); }, *memory_limit);
  // Installed before there is a window, so that ending a visible window never loses settings.
  if (arguments.screenshot.empty() && arguments.bench_frames == 0) end_on_signals();
  auto window = Window::open(
      {.width = size->first, .height = size->second, .scale = arguments.scale, .offscreen = arguments.headless()});
  if (!window) return fail(window.error());
  Viewer viewer(**window, settings, *memory_limit);
  if (source)
    viewer.open(std::move(source));
  else if (!predicted->empty())
    viewer.open_prediction(std::make_unique<const PredictionJob>(
        *predicted, arguments.to, arguments.capacity, [] { Window::wake(); }, *memory_limit));
  else if (!files->empty())
    viewer.open_ranks(*files);
  else if (!settings.tour_done)
    viewer.begin_tour();
  const bool is_alone_in_folder =
      files->size() == 1 && predicted->empty() && files->front() != arguments.traces.front();
  if (is_alone_in_folder) viewer.look_for_missing_ranks(files->front());
  if (!arguments.compare.empty()) {
    viewer.compare_with(arguments.compare);
    viewer.show_tab("compare");
  }
  if (!arguments.pane.empty()) viewer.maximise(arguments.pane == all_panes ? "" : arguments.pane);
  if (!arguments.at.empty() && !viewer.go_to(arguments.at)) return fail(not_an_instant(arguments.at));

  if (!arguments.screenshot.empty()) return take_pictures(arguments, **window, viewer);
  if (arguments.bench_frames != 0) return measure(arguments, **window, viewer, started);
  run_window(**window, viewer, arguments.control);
  save_settings(path, viewer.settings());
  if (ending_signal == 0) return 0;
  window->reset();
  std::signal(ending_signal, SIG_DFL);
  return std::raise(ending_signal);
}

int parse_and_run(int argc, char** argv) {
  const auto started = Clock::now();
  CLI::App app("memreel view shows a trace: its timeline, every allocation, the heap at any instant.", "memreel view");
  fit_help(app);
  app.set_version_flag("--version", "memreel " + std::string(version));
  Arguments arguments;
  app.add_option("TRACE", arguments.traces,
                 "Trace, or any file that import reads; several, or a directory: the ranks of a job; several "
                 "NAME=VALUE:TRACE: a prediction of larger runs");
  app.add_option("--to", arguments.to, "With NAME=VALUE:TRACE: values to predict, e.g. batch=8,16,32")
      ->allow_extra_args(false);
  app.add_option("--capacity", arguments.capacity, "With NAME=VALUE:TRACE: memory of the device, or a card's name");
  app.add_option("--compare", arguments.compare, "Another trace to compare with, at its peak");
  app.add_option("--screenshot", arguments.screenshot,
                 "Write a screenshot (PNG) and exit, without a window; with GLFW before 3.4 it needs a display, e.g. "
                 "xvfb-run's");
  app.add_option("--size", arguments.size, "Size of the window or screenshot, in pixels [1600x1000]");
  app.add_option("--max-memory", arguments.max_memory,
                 "Memory limit, e.g. 4GiB [a quarter of the machine's; for reading the file 64 times its size]");
  add_number(app, "--scale", arguments.scale, {0.5, 4},
             "Scale of the interface, e.g. 2 [the screen's; of screenshots by their height: 2 at 2160 pixels]");
  app.add_option("--at", arguments.at,
                 "Position of the cursor: seconds, 45%, event:1000, peak, reserved-peak, oom or end [peak]");
  app.add_option("--pane", arguments.pane,
                 "Show one pane only, e.g. map; all, with --screenshot: one picture per pane, in a folder");
  app.add_flag("--few-colours", arguments.few_colours, "With --screenshot: limit to 64 colours, for smaller files");
  app.add_flag("--light", arguments.light, "Dark text on a light background");
  app.add_flag("--dark", arguments.dark, "Light text on a dark background");
  add_whole_number(app, "--bench-frames", arguments.bench_frames, {1, any_count},
                   "Pan and zoom for this many scripted frames and print how long they took");
  app.add_flag("--json", arguments.json, "With --bench-frames: one JSON document instead of text");
  app.add_flag("--control", arguments.control, "Answer requests on standard input, for tests");
  only_with(app, {"--few-colours"}, {"--screenshot"});
  only_with(app, {"--json"}, {"--bench-frames"});
  app.footer(
      "Examples:\n"
      "  memreel view run.reel\n"
      "  memreel view snapshot.pickle --at peak\n"
      "  memreel view job/\n"
      "  memreel view batch=1:a.pickle batch=2:b.pickle batch=4:c.pickle --to batch=8,16 --capacity L4\n"
      "  xvfb-run -a memreel view run.reel --screenshot map.png --pane map --size 1600x1000\n"
      "  memreel view --serve run.reel\n\n"
      "The last one shows the trace in a browser, for computers without a screen; "
      "see memreel view --serve --help.\n\n"
      "Exit code: 0 done; 2 bad usage or input that can't be read.");
  // `memreel view` passes the command's name as the first argument.
  const bool as_command = argc > 1 && std::string_view(argv[1]) == "view";
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (const auto problem = empty_value(words.subspan(1))) return fail(*problem);
  try {
    app.parse(as_command ? argc - 1 : argc, as_command ? argv + 1 : argv);
  } catch (const CLI::ParseError& problem) {
    const Result<int> answered = answer_parse(app, problem);
    return answered ? *answered : fail(answered.error());
  }
  return run(arguments, started);
}

}  // namespace
}  // namespace memreel::viewer

int main(int argc, char** argv) try {
  return memreel::viewer::parse_and_run(argc, argv);
} catch (const std::bad_alloc&) {
  return memreel::viewer::fail({.what = "not enough memory to show the trace",
                                .remedy = "allow more with --max-memory, or use a machine with more"});
} catch (const std::exception& problem) {
  return memreel::viewer::fail({.what = problem.what()});
}
