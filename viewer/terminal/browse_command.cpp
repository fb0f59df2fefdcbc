// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/browse_command.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "formats/command_line/help.h"
#include "formats/command_line/option_values.h"
#include "formats/command_line/parse_errors.h"
#include "formats/model/files.h"
#include "memreel/version.h"
#include "viewer/model/ranks.h"
#include "viewer/model/typed_input.h"
#include "viewer/terminal/browser.h"
#include "viewer/terminal/process_table.h"
#include "viewer/terminal/recorded.h"
#include "viewer/terminal/tty.h"

namespace memreel::viewer::terminal {
namespace {

struct Arguments {
  std::vector<std::filesystem::path> traces;
  std::filesystem::path compare;
  std::string at, max_memory;
  bool light = false, dark = false;
  // Of the table of processes, as `memreel top` has them.
  bool is_table = false, categories = false;
  std::string interval = "2", order = "live";
};

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether all that is named are processes.
bool names_processes(const std::vector<std::filesystem::path>& named) {
  std::error_code problem;
  return !named.empty() && std::ranges::all_of(named, [&](const std::filesystem::path& path) {
    return is_number(path.string()) && !std::filesystem::exists(path, problem);
  });
}

int fail(const Error& error) {
  std::cerr << error_line(error);
  return exit_unusable;
}

/// What a terminal that can't move its cursor can show. Returns only if it can't be run.
int print_report(const Arguments& arguments) {
  std::error_code problem;
  std::vector<std::string> words{"memreel", "report"};
  if (arguments.is_table)
    words.back() = "top";
  else if (!arguments.compare.empty())
    words.back() = "diff";
  else if (arguments.traces.size() > 1 || std::filesystem::is_directory(arguments.traces.front(), problem))
    words.back() = "fleet";
  for (const std::filesystem::path& trace : arguments.traces) words.push_back(trace.string());
  if (!arguments.compare.empty()) words.push_back(arguments.compare.string());
  if (!arguments.max_memory.empty()) words.insert(words.end(), {"--max-memory", arguments.max_memory});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv("/proc/self/exe", pointers.data());
  return fail({.what = "the terminal can't move its cursor (TERM=dumb)",
               .where = {},
               .remedy = "set TERM, or print it with memreel report TRACE"});
}

/// Waits until there is something to show, or it is known that there is not; not for long.
void await_beginning(Session& session) {
  constexpr std::chrono::milliseconds patience{300}, pause{5};
  const auto begin = Clock::now();
  while (Clock::now() - begin < patience) {
    session.update(Clock::now());
    const Stage stage = session.status().stage;
    if (stage == Stage::failed || stage == Stage::complete || !session.document().empty()) return;
    std::this_thread::sleep_for(pause);
  }
}

/// Shows a Browser or a ProcessTable. The signal that ended it, or 0.
template <class View>
Result<int> show(View& view, Tty& tty) {
  constexpr std::chrono::milliseconds busy{40}, idle{500};
  constexpr int most_inputs = 64;  // between two pictures
  while (!view.wants_to_quit()) {
    view.update(Clock::now());
    if (const auto failure = view.failure()) return *failure;
    tty.show(view.draw(tty.width(), tty.height()));
    Input input = tty.wait(view.is_busy() ? busy : idle);
    for (int i = 0; i < most_inputs && !std::holds_alternative<Woken>(input); ++i) {
      view.handle(input);
      if (const auto text = view.take_copied()) tty.copy(*text);
      if (view.wants_to_quit()) break;
      // Keys may depend on what the ones before have changed.
      view.update(Clock::now());
      static_cast<void>(view.draw(tty.width(), tty.height()));
      input = tty.wait(std::chrono::milliseconds{0});
    }
    if (const auto signal = Tty::ending_signal()) return *signal;
  }
  return 0;
}

/// A single file as named; else the recordings among files and directories, which are the ranks of a job.
Result<std::vector<std::filesystem::path>> files_of(const Arguments& arguments) {
  std::error_code problem;
  const auto& named = arguments.traces;
  if (named.size() == 1 && !std::filesystem::is_directory(named.front(), problem)) return named;
  return recordings_in(named);
}

Look look_of(const Tty& tty, const Arguments& arguments) {
  Look look = tty.look();
  if (arguments.light || arguments.dark) look.light = arguments.light;
  return look;
}

/// For screens, and for a trace: its own limit, or what the machine has for one of any size.
void bound_browsing(Bytes memory_limit) {
  constexpr Bytes memory_of_screens = 64_MiB;
  bound_memory({},
               memory_limit.count != 0 ? memory_limit
                                       : default_memory_limit(Bytes{std::numeric_limits<std::uint64_t>::max()}, 1, {}),
               memory_of_screens);
}

/// The table of processes, and the traces that are opened from it. Signals end it as q does, as they end `memreel top`.
int run_table(const Arguments& arguments, Bytes memory_limit) {
  const auto order = recorded_order(arguments.order);
  if (!order)
    return fail({.what = "'" + arguments.order + "' is not an order",
                 .where = "--sort",
                 .remedy = "write live, reserved, growth or pid"});
  const auto wake = [] { Tty::wake(); };
  std::vector<std::string> words{"--interval", arguments.interval};
  if (arguments.categories) words.emplace_back("--categories");
  for (const std::filesystem::path& process : arguments.traces) words.push_back(process.string());
  const auto feed = Feed::open(std::move(words), wake);
  if (!feed) return fail(feed.error());
  if (!*feed) return 2;
  bound_browsing(memory_limit);
  auto tty = Tty::open();
  if (!tty) return fail(tty.error());
  const Look look = look_of(**tty, arguments);
  ProcessTable table([&] { return (*feed)->latest(); }, *order, look);
  while (true) {
    static_cast<void>(show(table, **tty));
    const auto trace = table.take_opened();
    if (!trace || Tty::ending_signal()) return 0;
    Browser browser(std::make_unique<Session>(*trace, wake, memory_limit), look,
                    {.files = {*trace}, .is_nested = true, .wake = wake, .memory_limit = memory_limit});
    if (const auto ended = show(browser, **tty); !ended) table.say(ended.error().message());
  }
}

int run(Arguments arguments) {
  arguments.is_table = arguments.is_table || names_processes(arguments.traces);
  // Two files are compared; more, or a directory, are the ranks of a job.
  std::error_code problem;
  if (!arguments.is_table && arguments.traces.size() == 2 && arguments.compare.empty() &&
      std::ranges::none_of(arguments.traces,
                           [&](const auto& p) { return std::filesystem::is_directory(p, problem); })) {
    arguments.compare = arguments.traces.back();
    arguments.traces.pop_back();
  }
  const auto memory_limit = parse_memory_limit(arguments.max_memory);
  if (!memory_limit) return fail(memory_limit.error());
  std::vector<std::filesystem::path> inputs = arguments.traces;
  inputs.push_back(arguments.compare);
  for (const std::filesystem::path& input : inputs)
    if (!arguments.is_table && !input.empty() && !std::filesystem::exists(input, problem))
      return fail({.what = "can't be opened: No such file or directory", .where = input.string()});
  if (!has_terminal())
    return fail(
        {.what = "browsing needs a terminal",
         .where = {},
         .remedy = arguments.is_table ? "print the table with memreel top" : "print it with memreel report TRACE"});
  if (is_dumb_terminal()) return print_report(arguments);
  if (arguments.is_table) return run_table(arguments, *memory_limit);
  const auto files = files_of(arguments);
  if (!files) return fail(files.error());
  bound_browsing(*memory_limit);
  const auto wake = [] { Tty::wake(); };
  auto session = std::make_unique<Session>(files->front(), wake, *memory_limit);
  await_beginning(*session);
  // Of a job, damaged files are known with the answer.
  for (std::size_t i = 1; i < files->size() && session->status().stage == Stage::failed; ++i) {
    session = std::make_unique<Session>((*files)[i], wake, *memory_limit);
    await_beginning(*session);
  }
  const SourceStatus status = session->status();
  if (status.stage == Stage::failed && status.error) return fail(*status.error);
  if (!arguments.at.empty() && !session->go_to(arguments.at)) return fail(not_an_instant(arguments.at));
  auto tty = Tty::open();
  if (!tty) return fail(tty.error());
  Browser browser(std::move(session), look_of(**tty, arguments),
                  {.files = *files,
                   .is_job = std::filesystem::is_directory(arguments.traces.front(), problem),
                   .at = arguments.at,
                   .compare = arguments.compare,
                   .wake = wake,
                   .memory_limit = *memory_limit});
  const Result<int> ended = show(browser, **tty);
  tty->reset();
  if (!ended) return fail(ended.error());
  if (*ended == 0) return 0;
  std::signal(*ended, SIG_DFL);
  return std::raise(*ended);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("memreel browse shows a trace in a terminal: who holds the memory at any instant, and the verdicts.",
               "memreel browse");
  fit_help(app);
  app.set_version_flag("--version", "memreel " + std::string(version));
  Arguments arguments;
  app.add_option("TRACE", arguments.traces,
                 "Trace, or any file that import reads; two: compared; more, or a directory: the ranks of a job; "
                 "process ids: what these hold, as memreel top shows it");
  app.add_option("--compare", arguments.compare, "Another trace to compare with, at its peak");
  app.add_option("--at", arguments.at,
                 "Position of the cursor: seconds, 45%, event:1000, peak, reserved-peak, oom or end [peak]");
  app.add_option("--max-memory", arguments.max_memory,
                 "Memory limit, e.g. 4GiB [a quarter of the machine's; for reading the file 64 times its size]");
  app.add_flag("--light", arguments.light, "Colours for a light background");
  app.add_flag("--dark", arguments.dark, "Colours for a dark background");
  app.add_flag("--top", arguments.is_table)->group("");  // all that follow are of `memreel top`, which starts this
  app.add_option("--interval", arguments.interval)->group("");
  app.add_option("--sort", arguments.order)->group("");
  app.add_flag("--categories", arguments.categories)->group("");
  app.footer(
      "Examples:\n"
      "  memreel browse snapshot.pickle\n"
      "  memreel browse run.reel --at oom\n"
      "  memreel browse before.reel after.reel\n"
      "  memreel browse job/\n"
      "  memreel browse 4711\n\n"
      "? shows the keys, q quits. Colours follow TERM, COLORTERM and NO_COLOR; in terminals "
      "that can't move their cursor (TERM=dumb) the report is printed.\n"
      "Exit code: 0 done; 2 bad usage or input that can't be read.");
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (const auto problem = empty_value(words.subspan(1))) return fail(*problem);
  try {
    app.parse(argc - 1, argv + 1);  // without "memreel"
    if (arguments.traces.empty() && !arguments.is_table) throw CLI::RequiredError("TRACE");
  } catch (const CLI::ParseError& problem) {
    const Result<int> answered = answer_parse(app, problem);
    return answered ? *answered : fail(answered.error());
  }
  return run(std::move(arguments));
}

}  // namespace

int run_browse(int argc, char** argv) try { return parse_and_run(argc, argv); } catch (const std::bad_alloc&) {
  return fail({.what = "not enough memory to show the trace",
               .remedy = "allow more with --max-memory, or use a machine with more"});
} catch (const std::exception& problem) {
  return fail({.what = problem.what()});
}

}  // namespace memreel::viewer::terminal
