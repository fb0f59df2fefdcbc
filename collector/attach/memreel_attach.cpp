// SPDX-License-Identifier: Apache-2.0
// memreel-attach: records a program that is already running. `memreel attach`, `detach`, `dump` and `holders` run this
// program.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigtimedwait
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "collector/attach/live_view.h"
#include "collector/attach/process.h"
#include "collector/attach/session.h"
#include "collector/options/options.h"
#include "collector/record/collector_command.h"
#include "collector/record/launch.h"
#include "collector/record/summary.h"
#include "formats/model/printable.h"
#include "formats/model/python_holders.h"
#include "formats/model/quantity.h"
#include "formats/model/result.h"
#include "memreel/version.h"

namespace memreel::attach {
namespace {

using record::fail;
using record::say;

struct Request {
  std::string target;  // as the user typed it
  pid_t process = 0;
  agent::Options options;
  std::string output;     // empty: the default
  double duration = 0;    // seconds; 0: until memreel detach
  double time_limit = 5;  // seconds
  double interval = 1;    // seconds
  std::string metrics;    // the metrics' target; empty: none
  std::string site;       // of the memory that --holders is about; empty: all
  bool holders = false;
  bool live = false;
  bool quiet = false;
  bool json = false;
};

/// Of `memreel holders`, and of `memreel attach --holders`.
constexpr double holders_time_limit = 30;  // seconds

CLI::Option* add_site(CLI::App& app, Request& request, const std::string& description) {
  constexpr std::size_t longest = 1000;  // characters; it travels in a message with many addresses
  return app.add_option("--site", request.site, description)->check([](const std::string& text) {
    return is_printable(text) && !text.empty() && text.size() <= longest
               ? std::string()
               : std::string("is not a place such as train.py:12");
  });
}

void describe_attach(CLI::App& app, Request& request) {
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.add_option("PID", request.target, "The process to record")->required();
  app.add_option("-o,--output", request.output, "Trace file; %p is the process id, %h the host [memreel-%h-%p.reel]");
  add_number(app, "--duration", request.duration, any_seconds, "Seconds to record, then detach [until memreel detach]");
  app.add_flag("--live", request.live, "Show what holds the memory while recording; q or Ctrl-C detaches");
  add_number(app, "--interval", request.interval, record::waits, "Seconds between updates of --live [1]");
  add_number(app, "--time-limit", request.time_limit, record::waits, "Seconds to wait for the program to respond [5]");
  app.add_option("--openmetrics", request.metrics,
                 "Export metrics for Prometheus while recording: :PORT (on loopback), HOST:PORT or FILE; runs until "
                 "Ctrl-C, which detaches, or until the program ends");
  app.add_flag("--holders", request.holders, "Record nothing: show which Python variables keep the memory");
  add_site(app, request, "With --holders: only memory allocated at this line, e.g. train.py:12, where that is known");
  record::add_recording_options(app, request.options);
  app.add_flag("-q,--quiet", request.quiet, "Print nothing but errors");
  app.add_flag("--json", request.json,
               "Print one JSON document at the end (memreel.attach/1; with --holders memreel.holders/1)");
  only_with(app, {"--site"}, {"--holders"});
  only_with(app, {"--interval"}, {"--live"});
  CLI::Option* const live = app.get_option("--live");
  live->excludes(app.get_option("--flight"));  // the table follows a single growing file
  live->excludes(app.get_option("--json"));
  app.footer(
      "Records the GPU memory use of a running program from now on. A program started with memreel record --dormant "
      "has memreel's library loaded already. Python 3.14 and newer load it on request. In any other program, memreel "
      "pauses one thread for about a millisecond to load it, as a debugger would; --backend interpose is then "
      "unavailable.\n"
      "Existing files are never overwritten: the trace gets a numbered name instead.\n\n"
      "Examples:\n"
      "  memreel attach 4711\n"
      "  memreel attach 4711 --live\n"
      "  memreel attach 4711 -o leak.reel --duration 60\n"
      "  memreel attach 4711 --openmetrics :9400\n"
      "  memreel attach 4711 --holders\n\n"
      "Exit code: 0 done; 2 if memreel can't attach.");
}

void describe_detach(CLI::App& app, Request& request) {
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.add_option("PID", request.target, "The recorded process")->required();
  app.add_flag("-q,--quiet", request.quiet, "Print nothing but errors");
  app.add_flag("--json", request.json, "Print one JSON document (memreel.detach/1)");
  app.footer(
      "Stops a recording, whether memreel attach or memreel record started it. The program keeps running.\n\n"
      "Examples:\n"
      "  memreel detach 4711\n\n"
      "Exit code: 0 done; 2 if the process is not being recorded.");
}

void describe_holders(CLI::App& app, Request& request) {
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.add_option("PID", request.target, "The recorded process")->required();
  add_number(app, "--time-limit", request.time_limit, record::waits, "Seconds to wait for the program to respond [30]");
  add_site(app, request, "Only memory allocated at this line, e.g. train.py:12, where that is known");
  app.add_flag("--json", request.json, "Print one JSON document (memreel.holders/1)");
  app.footer(
      "Shows which variables, containers and autograd graphs of a Python program keep its device memory and pinned "
      "memory. The program is recorded, or waits for that (memreel record --dormant); in any other, use "
      "memreel attach PID --holders. It need not import memreel. Its main thread looks for them at its next safe "
      "point: a million objects take half a second to a second. Nothing is changed.\n\n"
      "Examples:\n"
      "  memreel holders 4711\n"
      "  memreel holders 4711 --site train.py:12\n\n"
      "Exit code: 0 done; 2 if the process is not recorded, or could not look in time.");
}

/// The process that the user means. Errors: not a number; suggests processes with that name.
Result<pid_t> parse_process(const std::string& text, const std::string& command) {
  pid_t process = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), process);
  if (problem == std::errc() && end == text.data() + text.size() && process > 0) return process;
  std::string remedy;
  for (const pid_t found : attach::processes_named(text))
    remedy += (remedy.empty() ? "did you mean " : " or ") + std::to_string(found) + " (" + printable(text) + ")";
  if (!remedy.empty())
    remedy += "?";
  else
    remedy = "use " + command + " 4711; nvidia-smi lists the processes that use the GPU";
  return Error{.what = "'" + text + "' is not a process id", .where = "PID", .remedy = remedy};
}

std::string name_of(pid_t process) {
  const std::string name = attach::command_name(process);
  return "process " + std::to_string(process) + (name.empty() ? "" : " (" + printable(name) + ")");
}

std::string text_of_door(const attach::Joined& joined) {
  switch (joined.door) {
    case attach::Joined::Door::open:
      return "memreel was already loaded";
    case attach::Joined::Door::python:
      return "loaded by Python";
    case attach::Joined::Door::entered:
      return "paused one thread for " + text_of_seconds(std::chrono::duration<double>(joined.pause).count());
  }
  return {};
}

std::string_view name_of(attach::Joined::Door door) {
  switch (door) {
    case attach::Joined::Door::open:
      return "loaded";
    case attach::Joined::Door::python:
      return "python";
    case attach::Joined::Door::entered:
      break;
  }
  return "thread";
}

/// Waits until `seconds` have passed (0: no limit), a signal arrives, or the process is gone. True if it is gone.
bool wait_for_end(const attach::KnownProcess& process, double seconds) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds longest_step = std::chrono::milliseconds(100);
  constexpr double longest = 1e9;  // some thirty years
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                      seconds > 0 ? std::min(seconds, longest) : longest));
  for (auto left = end - Clock::now(); left.count() > 0; left = end - Clock::now()) {
    const timespec step{.tv_sec = 0, .tv_nsec = std::min<std::chrono::nanoseconds>(left, longest_step).count()};
    if (::sigtimedwait(&set, nullptr, &step) > 0) break;
    if (process.has_ended()) return true;
  }
  return false;
}

int print(const record::Json& document) {
  const std::string text = record::document_text(document);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  return fail(cut_off_output());
}

/// Ends the recording and reports its result.
Result<record::RecordedTrace> stop(const Request& request, const std::string& name) {
  const auto ended = attach::leave(request.process);
  if (!ended) return ended.error();
  const std::string trace((*ended)["trace"]);
  if (trace.empty())
    return Error{.what = "is not being recorded", .where = name, .remedy = "memreel attach starts a recording"};
  record::RecordedTrace recorded = record::recorded_trace(trace, static_cast<std::uint64_t>(request.process));
  if (!request.quiet)
    say("memreel: " + name + ": recording stopped\n  " + record::summary_of_trace(recorded, "at the end") + "\n");
  return recorded;
}

int detach(const Request& request) {
  const std::string command = attach::command_name(request.process);
  const auto recorded = stop(request, name_of(request.process));
  if (!recorded) return fail(recorded.error());
  if (!request.json) return 0;
  return print({{"schema", "memreel.detach/1"},
                {"process", request.process},
                {"name", command},
                {"recorded", record::json_of(*recorded)}});
}

/// "3.10 GiB     4,912  `history` in `train` (train.py:12), list of 4,912"
std::string text_of_holders(const PythonHolders& found) {
  constexpr std::size_t bytes_width = 11, blocks_width = 8;
  std::string text = right_aligned("bytes", bytes_width) + right_aligned("blocks", blocks_width) + "  kept by\n";
  for (const PythonHolder& row : found.rows)
    text += right_aligned(text_of(row.bytes), bytes_width) + right_aligned(text_of(row.blocks), blocks_width) + "  " +
            row.text + "\n";
  return text;
}

int show_holders(const Request& request) {
  const std::chrono::milliseconds limit(static_cast<std::int64_t>(request.time_limit * 1000));
  if (request.holders) {
    const auto joined = attach::enter(request.process, limit);
    if (!joined) return fail(joined.error());
    if (!request.quiet) say("memreel: " + name_of(request.process) + ": " + text_of_door(*joined) + "\n");
  }
  const auto told = attach::holders_of(request.process, request.site, limit);
  if (!told) return fail(told.error());
  const PythonHolders found = parse_python_holders((*told)["holders"]);
  if (found.objects == 0)
    return fail({.what = found.note.empty() ? "told nothing" : found.note,
                 .where = name_of(request.process),
                 .remedy = request.site.empty() ? ""
                                                : "known are sites of a recording to a file, and those of PyTorch "
                                                  "since memreel.torch_oom_hook()"});
  if (!request.json) {
    std::fputs(text_of_holders(found).c_str(), stdout);
    say("memreel: " + name_of(request.process) + ": walked " + counted(found.objects, "object") + " in " +
        text_of_seconds(std::chrono::duration<double>(found.took).count()) +
        (found.note.empty() ? "" : "; " + found.note) + "\n");
    return std::fflush(stdout) == 0 ? 0 : exit_unusable;
  }
  record::Json rows = record::Json::array();
  for (const PythonHolder& row : found.rows)
    rows.push_back({{"bytes", row.bytes.count},
                    {"blocks", row.blocks},
                    {"length", row.length},
                    {"length_before", row.length_before == 0 ? record::Json(nullptr) : record::Json(row.length_before)},
                    {"kind", row.kind},
                    {"text", row.text}});
  return print({{"schema", "memreel.holders/1"},
                {"process", request.process},
                {"name", attach::command_name(request.process)},
                {"site", request.site.empty() ? record::Json(nullptr) : record::Json(request.site)},
                {"time_ns", found.time.count()},
                {"took_ns", found.took.count()},
                {"objects", found.objects},
                {"note", found.note.empty() ? record::Json(nullptr) : record::Json(found.note)},
                {"rows", std::move(rows)}});
}

record::Json attach_document(const Request& request, const std::string& command, const attach::Joined& joined,
                             std::string_view state, record::Json recorded) {
  return {{"schema", "memreel.attach/1"},    {"process", request.process},       {"name", command},
          {"method", name_of(joined.door)},  {"pause_ns", joined.pause.count()}, {"state", state},
          {"trace", joined.status["trace"]}, {"recorded", std::move(recorded)}};
}

/// Errors: the metrics would go to the trace.
Result<void> outputs_differ(const Request& request) {
  if (request.metrics.empty()) return {};
  agent::ProcessNames names = agent::process_names();
  names.process = static_cast<std::uint64_t>(request.process);
  const std::filesystem::path trace = agent::trace_name(request.options.output, names);
  return must_differ({}, std::array{trace, record::metrics_file(request.metrics)});
}

int attach_to(Request& request) {
  auto output = record::output_pattern(request.output.empty() ? request.options.output : request.output);
  if (!output) return fail(output.error());
  request.options.output = *std::move(output);
  if (const auto differ = outputs_differ(request); !differ) return fail(differ.error());
  const attach::KnownProcess process(request.process);
  std::optional<record::Exporter> exporter;
  if (!request.metrics.empty()) {
    auto started = record::Exporter::start(request.metrics, {std::to_string(request.process)});
    if (!started) return fail(started.error());
    exporter.emplace(*std::move(started));
  }
  const auto joined = attach::join(request.process, request.options,
                                   std::chrono::milliseconds(static_cast<std::int64_t>(request.time_limit * 1000)));
  if (!joined) return fail(joined.error());
  const std::string name = name_of(request.process);
  const std::string command = attach::command_name(request.process);
  const std::string trace(joined->status["trace"]);
  const bool stays = request.duration == 0 && !request.live && !exporter;
  if (!request.quiet)
    say("memreel: " + name + ": recording to " + printable(trace) + "; " + text_of_door(*joined) + "\n" +
        (stays ? "  memreel detach " + std::to_string(request.process) + " stops the recording\n" : "") +
        (exporter && !exporter->waits() ? "  " + exporter->says() + "\n" : ""));
  if (exporter && exporter->waits()) say("memreel: " + exporter->says() + "\n");
  const auto finish = [&](std::string_view state, record::Json recorded) {
    return request.json ? print(attach_document(request, command, *joined, state, std::move(recorded))) : 0;
  };
  if (stays) return finish("recording", nullptr);
  const bool gone = request.live ? attach::show_live(process, trace, request.interval, request.duration)
                                 : wait_for_end(process, request.duration);
  exporter.reset();
  if (!gone && !process.has_ended()) {
    const auto recorded = stop(request, name);
    return recorded ? finish("stopped", record::json_of(*recorded)) : fail(recorded.error());
  }
  const auto recorded = record::recorded_trace(trace, static_cast<std::uint64_t>(request.process));
  if (!request.quiet) say("memreel: " + name + " has ended\n  " + record::summary_of_trace(recorded) + "\n");
  return finish("ended", record::json_of(recorded));
}

/// With --holders nothing is recorded. Errors: an option that says how to record.
Result<void> check_options_of_holders(const CLI::App& app) {
  constexpr std::array<std::string_view, 5> used{"--holders", "--site", "--time-limit", "--quiet", "--json"};
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name.starts_with("--") && std::ranges::find(used, name) == used.end())
      return Error{
          .what = "has no effect with --holders, which records nothing", .where = name, .remedy = "leave it out"};
  }
  return {};
}

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "dump") return run_dump(argc, argv);
  const std::string_view word = argc > 1 ? argv[1] : "";
  const bool detaches = word == "detach", shows = word == "holders";
  const std::string command = "memreel " + std::string(detaches || shows ? word : "attach");
  Request request;
  if (shows) request.time_limit = holders_time_limit;
  CLI::App app(shows      ? "Show which Python variables keep a recorded program's memory: memreel holders PID"
               : detaches ? "Stop recording a running program: memreel detach PID"
                          : "Record a running program: memreel attach PID [OPTIONS]",
               command);
  if (shows)
    describe_holders(app, request);
  else
    detaches ? describe_detach(app, request) : describe_attach(app, request);
  if (const auto code = record::parse(app, command.substr(command.find(' ') + 1), argc, argv)) return *code;
  const auto process = parse_process(request.target, command);
  if (!process) return fail(process.error());
  request.process = *process;
  if (request.holders) {
    if (const auto fits = check_options_of_holders(app); !fits) return fail(fits.error());
    if (app.get_option("--time-limit")->count() == 0) request.time_limit = holders_time_limit;
  }
  if (shows || request.holders) return show_holders(request);
  return detaches ? detach(request) : attach_to(request);
}

}  // namespace
}  // namespace memreel::attach

int main(int argc, char** argv) { return memreel::record::guarded("attach", memreel::attach::run, argc, argv); }
