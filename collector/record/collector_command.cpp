// SPDX-License-Identifier: Apache-2.0
#include "collector/record/collector_command.h"

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

#include "collector/record/launch.h"
#include "formats/command_line/help.h"
#include "formats/model/printable.h"

namespace memreel::record {

void say(std::string_view text) { std::fprintf(stderr, "%.*s", static_cast<int>(text.size()), text.data()); }

int fail(const Error& error) {
  say(error_line(error));
  return exit_unusable;
}

std::optional<int> parse(CLI::App& app, std::string_view name, int argc, char** argv) {
  fit_help(app);
  const int first = argc > 1 && name == argv[1] ? 2 : 1;
  std::vector<std::string> own;  // CLI11 takes them last first
  for (int i = argc - 1; i >= first; --i) own.emplace_back(argv[i]);
  try {
    app.parse(own);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() != 0)
      if (const auto empty = empty_value(std::span(argv + 1, argv + argc))) return fail(*empty);
    const Result<int> answered = answer_parse(app, problem);
    return answered ? *answered : fail(answered.error());
  }
  // What follows is the recorded program's.
  const auto count = static_cast<std::size_t>(argc) - app.remaining_size();
  if (const auto problem = empty_value(std::span(argv, count).subspan(1))) return fail(*problem);
  return std::nullopt;
}

namespace {

struct GuardedCommand {
  std::string_view name;
  int (*run)(int, char**);
  int argc;
  char** argv;
  int code = 2;
};

/// What runs on a stack that makecontext() begins, which passes no pointers.
GuardedCommand* guarded_command = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void run_guarded() {
  GuardedCommand& command = *guarded_command;
  try {
    command.code = command.run(command.argc, command.argv);
  } catch (const std::bad_alloc&) {
    command.code =
        fail({.what = "not enough memory for memreel " + std::string(command.name), .remedy = "free memory"});
  } catch (const std::exception& problem) {
    command.code = fail({.what = problem.what()});
  }
}

}  // namespace

int guarded(std::string_view name, int (*command)(int, char**), int argc, char** argv) {
  GuardedCommand called{.name = name, .run = command, .argc = argc, .argv = argv};
  guarded_command = &called;
  // A small stack, as by ulimit -s 16, is meant for the program.
  constexpr std::size_t enough = std::size_t{1} << 20U;
  constexpr std::size_t guard = std::size_t{64} << 10U;  // a page on any processor: memory that faults below the stack
  rlimit limit{};
  void* const stack = ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < enough
                          ? ::mmap(nullptr, enough, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                          : MAP_FAILED;
  if (stack == MAP_FAILED || ::mprotect(stack, guard, PROT_NONE) != 0) {
    run_guarded();
    return called.code;
  }
  ucontext_t here{}, there{};
  ::getcontext(&there);
  there.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = enough};
  there.uc_link = &here;
  ::makecontext(&there, run_guarded, 0);
  ::swapcontext(&here, &there);
  return called.code;
}

using agent::JournalEntry;

std::string document_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_of(const RecordedTrace& trace) {
  const bool known = static_cast<bool>(trace.facts);
  Json devices = Json::array();
  if (known)
    for (const auto& [number, device] : trace.facts->devices)
      devices.push_back({{"device", number},
                         {"peak_bytes", device.peak.count},
                         {"end_bytes", device.end.count},
                         {"failed_allocations", device.failures}});
  return {{"trace", trace.file},
          {"process", trace.process},
          {"bytes", known ? Json(trace.facts->file_size.count) : Json(nullptr)},
          {"events", known ? Json(trace.facts->events) : Json(nullptr)},
          {"lost_events", known ? Json(trace.lost) : Json(nullptr)},
          {"complete", known && trace.facts->complete},
          {"devices", std::move(devices)},
          {"overhead_share", trace.overhead ? Json(*trace.overhead) : Json(nullptr)},
          {"dumps", trace.dumps},
          {"stopped", trace.stopped.empty() ? Json(nullptr) : Json(trace.stopped)},
          {"problem", known ? Json(nullptr) : Json(trace.facts.error().message())}};
}

Json record_document(const std::string& program, const Ending& ending, const std::vector<JournalEntry>& journal) {
  Json traces = Json::array();
  Json refusals = Json::array();
  for (const JournalEntry& entry : journal) {
    if (entry.what == JournalEntry::What::began) traces.push_back(json_of(recorded_trace(entry, journal, ending.time)));
    if (entry.what == JournalEntry::What::refused)
      refusals.push_back({{"process", entry.process}, {"reason", entry.text}});
  }
  return {{"schema", "memreel.record/1"},
          {"program", program},
          {"process", ending.process},
          {"exit_code", ending.signal == 0 ? Json(ending.code) : Json(nullptr)},
          {"signal", ending.signal == 0 ? Json(nullptr) : Json(ending.signal)},
          {"duration_s", std::chrono::duration<double>(ending.time).count()},
          {"traces", std::move(traces)},
          {"not_recorded", std::move(refusals)}};
}

namespace {

constexpr char ready = '+', postponed = '.', failed = '-', between = '\x1f';  // of the line, and of its fields

/// Reads to the end of the line or the file.
std::string read_line(int file) {
  std::string line;
  char letter = 0;
  while (true) {
    const ssize_t size = ::read(file, &letter, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0 || letter == '\n') return line;
    line += letter;
  }
}

std::string line_of(char kind, const Error& error) {
  return kind + error.what + between + error.where + between + error.remedy + '\n';
}

Error error_in(std::string_view line) {
  std::array<std::string, 3> fields;
  for (std::string& field : fields) {
    field = line.substr(0, line.find(between));
    line.remove_prefix(std::min(line.size(), field.size() + 1));
  }
  return {.what = fields[0], .where = fields[1], .offset = {}, .remedy = fields[2]};
}

}  // namespace

std::filesystem::path metrics_file(const std::string& target) {
  if (target.find(':') != std::string::npos && target.find('/') == std::string::npos) return {};
  std::error_code ignored;
  return std::filesystem::absolute(agent::trace_name(target, agent::process_names()), ignored);
}

std::string ready_line(const std::string& address) { return ready + address + '\n'; }

std::string postponed_line(const Error& error) { return line_of(postponed, error); }

std::string failed_line(const Error& error) { return line_of(failed, error); }

Result<Exporter> Exporter::start(const std::string& target, const std::vector<std::string>& subject) {
  std::array<int, 2> leash{}, said{};
  if (::pipe2(leash.data(), O_CLOEXEC) != 0 || ::pipe2(said.data(), O_CLOEXEC) != 0)
    return Error{.what = "can't create a pipe: " + std::generic_category().message(errno)};
  std::vector<std::string> arguments{"memreel-top", "--companion", "--openmetrics", target};
  arguments.insert(arguments.end(), subject.begin(), subject.end());
  const auto process = start_companion("memreel-top", std::move(arguments),
                                       {.input = leash[0], .output = said[1], .errors = STDERR_FILENO});
  ::close(leash[0]);
  ::close(said[1]);
  const std::string line = process ? read_line(said[0]) : std::string();
  ::close(said[0]);
  if (process && line.starts_with(ready))
    return Exporter(*process, leash[1], "metrics at " + printable(line.substr(1)), false);
  if (process && line.starts_with(postponed)) {
    const Error why = error_in(std::string_view(line).substr(1));
    return Exporter(*process, leash[1],
                    "note: " + printable(why.message()) +
                        "; metrics follow once it is free. For several recordings on " +
                        "one machine: memreel top --openmetrics",
                    true);
  }
  ::close(leash[1]);
  if (!process) return process.error();
  ::waitpid(*process, nullptr, 0);
  if (line.starts_with(failed)) return error_in(std::string_view(line).substr(1));
  return Error{.what = "exited before it could serve metrics", .where = sibling("memreel-top").string()};
}

Exporter::Exporter(Exporter&& other) noexcept
    : process_(std::exchange(other.process_, 0)),
      leash_(std::exchange(other.leash_, -1)),
      says_(std::move(other.says_)),
      waits_(other.waits_) {}

Exporter::~Exporter() {
  if (leash_ >= 0) ::close(leash_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

}  // namespace memreel::record
