// SPDX-License-Identifier: Apache-2.0
// memreel-top: what all recorded processes on this machine hold, as a table, a document or metrics. `memreel top` runs
// this program; `memreel record` and `memreel attach` do for --openmetrics. In a terminal it hands over to `memreel
// browse`, which runs it again as the source of its figures (--feed): so it stays without a terminal library.
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigprocmask
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "collector/attach/live_view.h"
#include "collector/attach/process.h"
#include "collector/attach/session.h"
#include "collector/options/journal.h"
#include "collector/record/collector_command.h"
#include "collector/record/launch.h"
#include "collector/record/summary.h"
#include "collector/top/sampled_processes.h"
#include "collector/top/scrape_server.h"
#include "collector/top/top_table.h"
#include "formats/model/printable.h"
#include "formats/model/result.h"
#include "memreel/version.h"

namespace memreel::top {
namespace {

using record::fail;
using record::say;

struct Request {
  std::vector<pid_t> processes;  // none: all recorded ones
  std::string order = "live";
  std::string target;   // of metrics; empty: none
  std::string journal;  // watch the processes of this recording
  double interval = 2;  // seconds
  bool once = false, json = false, categories = false, companion = false, feed = false;
};

void describe(CLI::App& app, Request& request) {
  app.set_version_flag("--version", "memreel " + std::string(version));
  add_whole_numbers(
      app, "PID", [&request](std::uint64_t number) { request.processes.push_back(static_cast<pid_t>(number)); },
      {1, std::numeric_limits<pid_t>::max()}, "Processes to show [all recorded processes that you may query]");
  add_number(app, "--interval", request.interval, record::waits, "Seconds between updates [2]");
  app.add_option("--sort", request.order, "Sort by live, reserved, growth or pid [live]")
      ->check(one_of({"live", "reserved", "growth", "pid"}));
  app.add_flag("--categories", request.categories,
               "Also show memory by category and leaks so far; uses up to a tenth of one CPU");
  app.add_flag("--once", request.once, "Print the table once, after one interval, and exit");
  app.add_flag("--json", request.json, "Like --once, but print one JSON document (memreel.top/1)");
  app.add_option("--openmetrics", request.target,
                 "Export metrics for Prometheus instead: :PORT (on loopback), HOST:PORT or FILE");
  not_with(app, {"--once", "--json", "--sort", "--categories"}, {"--openmetrics"});
  app.add_option("--journal", request.journal)->group("");
  app.add_flag("--companion", request.companion)->group("");
  app.add_flag("--feed", request.feed)->group("");
  app.footer(
      "Shows the memory of each recorded process by heap: live bytes, bytes reserved by pools, peak live bytes, and "
      "the growth of live bytes in the last minute. memreel queries the processes through their control sockets; "
      "those of other users answer only root. Keys: q quits; l, r, g and p sort by live, reserved, growth and PID; "
      "Enter browses the trace of a process while it grows; ? shows all keys.\n"
      "If standard output is not a terminal, tables are printed one after another.\n\n"
      "Examples:\n"
      "  memreel top\n"
      "  memreel top 4711 --categories\n"
      "  memreel top --once --json | jq '.processes[].heaps'\n"
      "  memreel top --openmetrics :9400\n\n"
      "Exit code: 0 done; 2 bad usage, or a given process is not being recorded.");
}

/// The processes of one `memreel record` that have begun recording and not ended.
std::vector<pid_t> processes_in(const std::string& journal) {
  std::vector<std::pair<std::uint64_t, std::string>> running;  // with their traces
  for (const agent::JournalEntry& entry : record::read_journal(journal)) {
    if (entry.what == agent::JournalEntry::What::began) running.emplace_back(entry.process, entry.trace);
    if (entry.what == agent::JournalEntry::What::ended) std::erase(running, std::pair(entry.process, entry.trace));
  }
  std::vector<pid_t> processes;
  for (const auto& [process, trace] : running)
    if (std::ranges::find(processes, static_cast<pid_t>(process)) == processes.end())
      processes.push_back(static_cast<pid_t>(process));
  return processes;
}

std::vector<pid_t> processes_of(const Request& request) {
  if (!request.journal.empty()) return processes_in(request.journal);
  return request.processes.empty() ? attach::listening_processes() : request.processes;
}

std::chrono::milliseconds interval_of(const Request& request) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(request.interval * 1000));
}

/// An error for the first named process about which nothing is known.
Result<void> check_all_there(const Request& request, const Watch& watch) {
  for (const pid_t process : request.processes)
    if (std::ranges::find(watch.processes(), process, &WatchedProcess::process) == watch.processes().end())
      return Error{.what = "is not being recorded",
                   .where = "process " + std::to_string(process),
                   .remedy = "memreel attach " + std::to_string(process) + " starts a recording"};
  return {};
}

bool print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

bool has_all_findings(const Watch& watch) {
  return std::ranges::all_of(
      watch.processes(), [](const WatchedProcess& process) { return process.findings || !process.status.recording; });
}

/// Two samples, to show growth between them; more, until categories are available or half a minute has passed.
int show_once(const Request& request, Watch& watch) {
  constexpr std::chrono::seconds patience{30};
  const auto begin = Watch::Clock::now();
  watch.refresh(processes_of(request), begin);
  if (const auto there = check_all_there(request, watch); !there) return fail(there.error());
  do {
    std::this_thread::sleep_for(interval_of(request));
    watch.refresh(processes_of(request), Watch::Clock::now());
  } while (request.categories && !has_all_findings(watch) && Watch::Clock::now() - begin < patience);
  const std::string text = request.json ? record::document_text(top_document(watch.processes()))
                                        : table(watch.processes(), *order_named(request.order), std::string::npos);
  if (print(text)) return 0;
  return fail(cut_off_output());
}

/// For `memreel browse`: one JSON document a line, until standard input is closed.
int feed(const Request& request, Watch& watch) {
  ::signal(SIGPIPE, SIG_IGN);
  for (bool first = true;; first = false) {
    watch.refresh(processes_of(request), Watch::Clock::now());
    if (const auto there = check_all_there(request, watch); first && !there) return fail(there.error());
    if (!print(top_document(watch.processes()).dump(-1, ' ', false, record::Json::error_handler_t::replace) + "\n"))
      return 0;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, static_cast<int>(interval_of(request).count())) != 0) return 0;
  }
}

/// Shows the table in the look of `memreel browse`, where there is one and the terminal can show it; else returns.
void browse([[maybe_unused]] const Request& request) {
#ifdef MEMREEL_BROWSER
  const char* const term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): there is one thread
  if (term == nullptr || std::string_view(term).empty() || std::string_view(term) == "dumb") return;
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return;
  std::vector<std::string> words{"memreel", "browse",     "--top", "--interval", std::to_string(request.interval),
                                 "--sort",  request.order};
  if (request.categories) words.emplace_back("--categories");
  for (const pid_t process : request.processes) words.push_back(std::to_string(process));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(record::sibling("memreel").c_str(), pointers.data());
#endif
}

int show(const Request& request, Watch& watch) {
  browse(request);
  Order order = *order_named(request.order);
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  attach::Keys keys;
  for (bool first = true;; first = false) {
    watch.refresh(processes_of(request), Watch::Clock::now());
    if (const auto there = check_all_there(request, watch); first && !there) return fail(there.error());
    auto next = Watch::Clock::now() + interval_of(request);
    while (Watch::Clock::now() < next) {
      winsize size{};
      const bool known = terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40;
      const std::string text = table(watch.processes(), order, known ? size.ws_col : std::string::npos);
      // Overwrites the old table, then clears the rest.
      if (!print(terminal ? "\x1b[H\x1b[2J" + text + "\nq quits; sort by l(ive), r(eserved), g(rowth), p(id)"
                          : text + "\n"))
        return 0;  // the reader of the output is gone
      const char key = keys.next(std::chrono::duration_cast<std::chrono::milliseconds>(next - Watch::Clock::now()));
      if (key == attach::Keys::end) {
        if (terminal) print("\n");
        return 0;
      }
      const auto wanted = order_of_key(key);
      if (!wanted) break;
      order = *wanted;
    }
  }
}

/// A file descriptor that becomes readable when the program should end: for a companion, when its input is closed.
int end_file(const Request& request) {
  if (request.companion) return STDIN_FILENO;
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return ::signalfd(-1, &set, SFD_CLOEXEC);
}

/// A program that is recorded does not wait for a port; metrics do.
void tell_launcher(const Error& why) {
  ::signal(SIGPIPE, SIG_IGN);  // it does not read what comes later
  print(record::postponed_line(why));
}

int export_all(const Request& request) {
  auto target = parse_target(request.target);
  Result<void> exported;
  if (!target) {
    exported = target.error();
  } else {
    exported =
        export_metrics({.target = *std::move(target),
                        .interval = interval_of(request),
                        .processes = [&] { return processes_of(request); },
                        .end = end_file(request),
                        .announce =
                            [&](const std::string& where) {
                              if (request.companion)
                                print(record::ready_line(where));
                              else
                                say("memreel: metrics at " + printable(where) + "\n");
                            },
                        .postpone = request.companion ? std::function<void(const Error&)>(tell_launcher) : nullptr});
  }
  if (exported) return 0;
  if (!request.companion) return fail(exported.error());
  print(record::failed_line(exported.error()));
  return exit_unusable;
}

int run(int argc, char** argv) {
  Request request;
  CLI::App app("Show the memory of all recorded processes on this machine: memreel top [PID...] [OPTIONS]",
               "memreel top");
  describe(app, request);
  if (const auto code = record::parse(app, "top", argc, argv)) return *code;
  if (!request.target.empty()) return export_all(request);
  Watch watch(request.categories ? Watch::Analyse::yes : Watch::Analyse::no);
  if (request.feed) return feed(request, watch);
  return request.once || request.json ? show_once(request, watch) : show(request, watch);
}

}  // namespace
}  // namespace memreel::top

int main(int argc, char** argv) { return memreel::record::guarded("top", memreel::top::run, argc, argv); }
