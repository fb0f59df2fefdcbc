#include "collector/attach/dump.h"

#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "collector/attach/control_socket.h"
#include "collector/attach/listeners.h"
#include "collector/attach/process.h"
#include "collector/record/command.h"
#include "collector/record/document.h"
#include "formats/model/printable.h"
#include "memreel/version.h"

namespace memreel::attach {
namespace {

constexpr int done = 0;
constexpr std::string_view rank_prefix = "rank:";

struct Request {
  std::vector<std::string> targets;
  double time_limit = 60;  // seconds
  bool quiet = false;
  bool json = false;
};

struct Target {
  pid_t process = 0;
  std::string rank;
};

/// Listening processes on this machine whose rank matches `pattern`.
std::vector<Target> ranks_like(const std::string& pattern) {
  std::vector<Target> found;
  for (const pid_t process : listening_processes()) {
    const Reply reply = ask(process, {.word = "status", .fields = {}}, std::chrono::seconds(2));
    if (!reply.reached || !reply.answer || (*reply.answer)["recording"] != "1") continue;
    const std::string rank((*reply.answer)["rank"]);
    if (::fnmatch(pattern.c_str(), rank.c_str(), 0) == 0) found.push_back({process, rank});
  }
  return found;
}

Result<std::vector<Target>> targets_of(const Request& request) {
  std::vector<Target> targets;
  for (const std::string& text : request.targets) {
    pid_t process = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), process);
    if (problem == std::errc() && end == text.data() + text.size() && process > 0) {
      targets.push_back({process, {}});
      continue;
    }
    if (!text.starts_with(rank_prefix))
      return Error{.what = "'" + text + "' is neither a process id nor a rank",
                   .where = "TARGET",
                   .remedy = "use memreel dump 4711 or memreel dump 'rank:*'"};
    const std::vector<Target> ranks = ranks_like(text.substr(rank_prefix.size()));
    if (ranks.empty())
      return Error{
          .what = "no process recorded on this machine has a matching rank",
          .where = text,
          .remedy = "start the job with memreel record --flight 256MiB, and run memreel dump on the same machine"};
    targets.insert(targets.end(), ranks.begin(), ranks.end());
  }
  return targets;
}

/// Returns the dump's file.
Result<std::string> dump(const Target& target, std::chrono::milliseconds limit) {
  const std::string name = "process " + std::to_string(target.process);
  if (!start_time(target.process)) return Error{.what = "no such process", .where = name, .remedy = {}};
  const Reply reply = ask(target.process, {.word = "dump", .fields = {}}, limit);
  if (!reply.reached)
    return Error{.what = "is not being recorded with --flight",
                 .where = name,
                 .remedy = "start it with memreel record --flight 256MiB -- PROGRAM"};
  if (reply.answer) return std::string((*reply.answer)["trace"]);
  Error error = reply.answer.error();
  if (error.where.empty()) error.where = name;
  return error;
}

void describe(CLI::App& app, Request& request) {
  app.set_version_flag("--version", "memreel " + std::string(version));
  app.add_option("TARGET", request.targets, "Process ids, or rank:PATTERN for ranks on this machine (rank:0, 'rank:*')")
      ->required();
  app.add_option("--time-limit", request.time_limit, "Seconds to wait for each dump [60]")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_flag("-q,--quiet", request.quiet, "Print nothing but errors");
  app.add_flag("--json", request.json, "Print one JSON document (memreel.dump/1)");
  app.footer(
      "Makes each program that runs under memreel record --flight write its flight recording to a file next to its\n"
      "trace. The program keeps running.\n\n"
      "Examples:\n"
      "  memreel dump 4711\n"
      "  memreel dump 'rank:*'\n\n"
      "Exit code: 0 done; 2 if a process is not recorded with --flight, or a dump could not be written.");
}

}  // namespace

int run_dump(int argc, char** argv) {
  Request request;
  CLI::App app("Dump flight recordings to files: memreel dump TARGET...", "memreel dump");
  describe(app, request);
  if (const auto code = record::parse(app, "dump", argc, argv)) return *code;
  const auto targets = targets_of(request);
  if (!targets) return record::fail(targets.error());
  const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(request.time_limit * 1000));
  int code = done;
  record::Json dumps = record::Json::array();
  for (const Target& target : *targets) {
    const auto file = dump(target, limit);
    if (!file) {
      code = record::fail(file.error());
      continue;
    }
    dumps.push_back({{"process", target.process}, {"rank", target.rank}, {"dump", *file}});
    if (!request.json && !request.quiet) std::printf("%s\n", printable(*file).c_str());
  }
  if (request.json)
    std::fputs(record::document_text({{"schema", "memreel.dump/1"}, {"dumps", std::move(dumps)}}).c_str(), stdout);
  return std::fflush(stdout) == 0 ? code : record::unusable;
}

}  // namespace memreel::attach
