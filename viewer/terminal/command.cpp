// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/command.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "formats/model/files.h"
#include "formats/model/memory_bound.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "memreel/version.h"
#include "viewer/model/ranks.h"
#include "viewer/terminal/browser.h"
#include "viewer/terminal/tty.h"

namespace memreel::viewer::terminal {
namespace {

struct Arguments {
  std::vector<std::filesystem::path> traces;
  std::filesystem::path compare;
  std::string at, max_memory;
  bool light = false, dark = false;
};

int fail(const Error& error) {
  std::cerr << "memreel: error: " << printable(error.message()) << '\n';
  return 2;
}

/// --max-memory; 0 without one.
Result<Bytes> parse_memory_limit(const std::string& text) {
  if (text.empty()) return Bytes{};
  Result<Bytes> limit = parse_bytes(text);
  if (limit && *limit > 0_B) return limit;
  return Error{.what = "'" + text + "' is not a size", .where = "--max-memory", .remedy = "write a size such as 4GiB"};
}

/// What a terminal that can't move its cursor can show. Returns only if it can't be run.
int print_report(const Arguments& arguments) {
  std::error_code problem;
  std::vector<std::string> words{"memreel", "report"};
  if (!arguments.compare.empty())
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

/// The signal that ended it, or 0.
Result<int> browse(Browser& browser, Tty& tty) {
  constexpr std::chrono::milliseconds busy{40}, idle{500};
  constexpr int most_inputs = 64;  // between two pictures
  while (!browser.wants_to_quit()) {
    browser.update(Clock::now());
    if (const auto failure = browser.failure()) return *failure;
    tty.show(browser.draw(tty.width(), tty.height()));
    Input input = tty.wait(browser.is_busy() ? busy : idle);
    for (int i = 0; i < most_inputs && !std::holds_alternative<Woken>(input); ++i) {
      browser.handle(input);
      if (const auto text = browser.take_copied()) tty.copy(*text);
      if (browser.wants_to_quit()) break;
      // Keys may depend on what the ones before have changed.
      browser.update(Clock::now());
      static_cast<void>(browser.draw(tty.width(), tty.height()));
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

int run(Arguments arguments) {
  // Two files are compared; more, or a directory, are the ranks of a job.
  std::error_code problem;
  if (arguments.traces.size() == 2 && arguments.compare.empty() &&
      std::ranges::none_of(arguments.traces,
                           [&](const auto& p) { return std::filesystem::is_directory(p, problem); })) {
    arguments.compare = arguments.traces.back();
    arguments.traces.pop_back();
  }
  const auto memory_limit = parse_memory_limit(arguments.max_memory);
  if (!memory_limit) return fail(memory_limit.error());
  if (!has_terminal())
    return fail({.what = "browsing needs a terminal", .where = {}, .remedy = "print it with memreel report TRACE"});
  if (is_dumb_terminal()) return print_report(arguments);
  const auto files = files_of(arguments);
  if (!files) return fail(files.error());
  constexpr Bytes memory_of_screens = 64_MiB;
  bound_memory({},
               memory_limit->count != 0 ? *memory_limit
                                        : default_memory_limit(Bytes{std::numeric_limits<std::uint64_t>::max()}, 1, {}),
               memory_of_screens);

  const auto wake = [] { Tty::wake(); };
  auto session = std::make_unique<Session>(files->front(), wake, *memory_limit);
  await_beginning(*session);
  const SourceStatus status = session->status();
  if (status.stage == Stage::failed && status.error) return fail(*status.error);
  if (!arguments.at.empty() && !session->go_to(arguments.at))
    return fail({.what = "'" + arguments.at + "' is not an instant",
                 .where = "--at",
                 .remedy = "write seconds (1.5), a share (45%), event:1000, peak, reserved-peak, oom or end"});
  auto tty = Tty::open();
  if (!tty) return fail(tty.error());
  Look look = (*tty)->look();
  if (arguments.light || arguments.dark) look.light = arguments.light;
  Browser browser(std::move(session), look,
                  {.files = *files, .compare = arguments.compare, .wake = wake, .memory_limit = *memory_limit});
  const Result<int> ended = browse(browser, **tty);
  tty->reset();
  if (!ended) return fail(ended.error());
  if (*ended == 0) return 0;
  std::signal(*ended, SIG_DFL);
  return std::raise(*ended);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("memreel browse shows a trace in a terminal: who holds the memory at any instant, and the verdicts.",
               "memreel browse");
  app.set_version_flag("--version", "memreel " + std::string(version));
  Arguments arguments;
  app.add_option("TRACE", arguments.traces,
                 "Trace, or any file that import reads; two: compared; more, or a directory: the ranks of a job")
      ->required();
  app.add_option("--compare", arguments.compare, "Another trace to compare with, at its peak");
  app.add_option("--at", arguments.at,
                 "Position of the cursor: seconds, 45%, event:1000, peak, reserved-peak, oom or end [peak]");
  app.add_option("--max-memory", arguments.max_memory,
                 "Memory limit, e.g. 4GiB [a quarter of the machine's; for reading the file 64 times its size]");
  app.add_flag("--light", arguments.light, "Colours for a light background");
  app.add_flag("--dark", arguments.dark, "Colours for a dark background");
  app.footer(
      "Examples:\n"
      "  memreel browse snapshot.pickle\n"
      "  memreel browse run.reel --at oom\n"
      "  memreel browse before.reel after.reel\n"
      "  memreel browse job/\n\n"
      "? shows the keys, q quits. Colours follow TERM, COLORTERM and NO_COLOR; in terminals\n"
      "that can't move their cursor (TERM=dumb) the report is printed.\n"
      "Exit code: 0 done; 2 bad usage or input that can't be read.");
  try {
    app.parse(argc - 1, argv + 1);  // without "memreel"
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return fail({.what = problem.what(), .remedy = "see memreel browse --help"});
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
