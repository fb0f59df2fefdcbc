// SPDX-License-Identifier: Apache-2.0
// memreel-fleet-mpi: the work of `memreel fleet` on many nodes. Files are read where they are, and results are written
// to files in a shared directory; the final answer is that of `memreel fleet merge`, which finds all work done.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/fleet/fleet_settings.h"
#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/map.h"
#include "analyzer/fleet/mpi/exchange.h"
#include "analyzer/fleet/question.h"

namespace {

namespace fs = std::filesystem;
using namespace memreel;  // NOLINT(google-build-using-namespace): a program of one file

constexpr int unusable = 2;

struct Arguments : FleetWords {
  std::vector<fs::path> files;
  fs::path out;
  unsigned jobs = 1;
  bool resume = false, no_setting = false;
};

/// Writes the message in one piece: other processes write to the same terminal.
int fail(const Error& error) {
  std::cerr << "memreel-fleet-mpi: error: " + error.message() + '\n';
  return unusable;
}

Result<FleetQuestion> question_of(const Arguments& arguments) {
  Result<FleetQuestion> question = parse_question(arguments);
  if (!question) return question;
  question->map.out = fs::absolute(arguments.out).lexically_normal();
  question->map.resume = arguments.resume;
  return question;
}

/// Which processes can read a file, by its path.
class Reach {
 public:
  explicit Reach(const std::vector<mpi::Item>& items) {
    for (const mpi::Item& item : items) processes_[item.file.string()] = {item.processes.begin(), item.processes.end()};
  }
  bool has(const std::string& file, int process) const {
    const auto found = processes_.find(file);
    return found == processes_.end() || found->second.contains(process);
  }

 private:
  std::map<std::string, std::set<int>> processes_;
};

/// The recordings that processes can read.
struct Recordings {
  std::vector<std::string> files;  // largest first, the same on every process
  Reach reach;
  Error none;  // if there are no files: why this process found none
};

/// Collective. A node without files of its own still helps with those that all can read, and in the second round.
Recordings find_recordings(const mpi::Session& session, const std::vector<fs::path>& named) {
  const Result<FleetInputs> inputs = find_inputs(named);
  const std::vector<mpi::Item> items = mpi::gather(session, inputs ? inputs->files : std::vector<fs::path>{});
  std::vector<std::string> files;
  for (const mpi::Item& item : items) files.push_back(item.file.string());
  return {.files = mpi::broadcast(session, files),
          .reach = Reach(items),
          .none = inputs ? Error{.what = "no recordings there"} : inputs.error()};
}

/// Round one: a summary of each recording.
std::optional<Error> map_all(const mpi::Session& session, const Recordings& recordings, const Arguments& arguments,
                             const MapOptions& options) {
  const std::vector<std::string>& files = recordings.files;
  std::optional<Error> problem;
  mpi::share_out(
      session, files.size(), arguments.jobs, options.limits,
      [&](std::size_t i, int process) { return recordings.reach.has(files[i], process); },
      [&](std::size_t i) {
        if (options.resume && has_result(options.out, files[i])) return std::string();
        return judge_recording(files[i], options);
      },
      [&](std::size_t i, const ChildOutcome& outcome) {
        if (outcome.output.empty() && outcome.failure.empty()) return;
        if (auto kept = keep_outcome(files[i], outcome, options); !kept && !problem) problem = std::move(kept).error();
      });
  return problem;
}

/// Round two: the proposals of the heaviest classes are replayed on all of them. Outcomes are kept in files, which
/// `fleet merge` reads.
void find_settings(const mpi::Session& session, const Fleet& fleet, const Reach& reach, const Arguments& arguments,
                   const SettingOptions& options) {
  // File, witness, and limit in bytes, or nothing, of each task.
  constexpr std::size_t words = 3;
  std::vector<std::string> proposing, replayed;
  const auto add = [&](std::vector<std::string>& list, const RankClass& c) {
    const ReplayTask task = replay_task(fleet, c, options);
    list.insert(list.end(), {task.file, task.witness, task.limit ? std::to_string(task.limit->count) : std::string()});
  };
  const auto task_at = [](const std::vector<std::string>& list, std::size_t i) {
    const std::string& limit = list[words * i + 2];
    return ReplayTask{.file = list[words * i],
                      .witness = list[words * i + 1],
                      .limit = limit.empty() ? std::nullopt : std::optional(Bytes{std::stoull(limit)})};
  };
  if (session.first()) {
    for (const std::uint32_t i : proposing_classes(fleet)) add(proposing, fleet.classes[i]);
    for (const RankClass& c : fleet.classes) add(replayed, c);
  }
  proposing = mpi::broadcast(session, proposing);
  replayed = mpi::broadcast(session, replayed);
  const auto nothing = [](std::size_t, const ChildOutcome&) {};
  mpi::share_out(
      session, proposing.size() / words, arguments.jobs, options.limits,
      [&](std::size_t i, int process) { return reach.has(proposing[words * i], process); },
      [&](std::size_t i) { return propose_settings(task_at(proposing, i), options); }, nothing);
  std::vector<std::string> candidates;
  if (session.first()) {
    std::vector<std::vector<std::string>> proposals;
    for (std::size_t i = 0; i < proposing.size() / words; ++i)
      proposals.push_back(read_proposals(propose_settings(task_at(proposing, i), options)));
    candidates = union_of(proposals);
  }
  candidates = mpi::broadcast(session, candidates);
  mpi::share_out(
      session, replayed.size() / words, arguments.jobs, options.limits,
      [&](std::size_t i, int process) {
        const ReplayTask task = task_at(replayed, i);
        return reach.has(task.file, process) && (task.witness.empty() || reach.has(task.witness, process));
      },
      [&](std::size_t i) { return replay_settings(task_at(replayed, i), candidates, options); }, nothing);
}

/// The arguments of `memreel fleet merge` that correspond to ours, plus what follows `--` on our command line.
std::vector<std::string> merge_words(const Arguments& arguments, const std::vector<std::string>& rest) {
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  std::vector<std::string> words{(self.parent_path() / "memreel").string(), "fleet", "merge", arguments.out.string()};
  if (!arguments.job.empty()) words.insert(words.end(), {"--job", arguments.job});
  if (!arguments.mesh.empty()) words.insert(words.end(), {"--mesh", arguments.mesh});
  if (!arguments.capacity.empty()) words.insert(words.end(), {"--capacity", arguments.capacity});
  if (arguments.world_size) words.insert(words.end(), {"--world-size", std::to_string(*arguments.world_size)});
  if (arguments.no_setting) words.emplace_back("--no-setting");
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

int become(std::vector<std::string> words) {
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  execv(raw.front(), raw.data());
  return fail({.what = "can't be started to report the result", .where = words.front()});
}

/// Everything done collectively. The first process's return value says whether there is an answer.
std::optional<Error> work(const mpi::Session& session, const Recordings& recordings, const Arguments& arguments,
                          const FleetQuestion& question) {
  std::error_code problem;
  fs::create_directories(question.map.out, problem);
  if (problem) return Error{.what = problem.message(), .where = question.map.out.string()};
  if (auto failed = map_all(session, recordings, arguments, question.map)) return failed;
  if (arguments.no_setting) return std::nullopt;

  std::vector<Fleet> jobs;
  if (session.first()) {
    Result<std::vector<RankSummary>> summaries = read_results(question.map.out);
    if (!summaries) return std::move(summaries).error();
    Result<std::vector<Fleet>> assembled = assemble_jobs(*std::move(summaries), question.fleet);
    if (!assembled) return std::move(assembled).error();
    jobs = *std::move(assembled);
  }
  jobs.resize(mpi::broadcast(session, std::vector<std::string>(jobs.size())).size());  // empty ones on other processes
  for (const Fleet& fleet : jobs)
    find_settings(session, fleet, recordings.reach, arguments,
                  {.capacity = question.fleet.capacity, .out = question.map.out, .limits = question.map.limits});
  return std::nullopt;
}

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("FILES", arguments.files, "Recordings or directories of them, as each node sees them")->required();
  app.add_option("-o,--output", arguments.out, "Directory of the results, which all nodes share")->required();
  app.add_flag("--resume", arguments.resume, "Skip recordings that are done");
  app.add_option("--jobs,-j", arguments.jobs, "Recordings that each process reads at once [1]")
      ->check(CLI::PositiveNumber);
  app.add_option("--rank-pattern", arguments.rank_pattern, "As in memreel fleet");
  app.add_option("--job", arguments.job, "As in memreel fleet");
  app.add_option("--world-size", arguments.world_size, "As in memreel fleet");
  app.add_option("--mesh", arguments.mesh, "As in memreel fleet");
  app.add_option("--capacity", arguments.capacity, "As in memreel fleet");
  app.add_flag("--no-setting", arguments.no_setting, "As in memreel fleet");
  app.add_option("--memory-limit", arguments.memory_limit, "Memory limit for reading one recording [16GiB]");
  app.add_option("--time-limit", arguments.time_limit, "Limit in seconds for reading one recording [600]");
  app.footer(
      "Arguments after -- are for memreel fleet merge, which the first process runs at the end.\n\n"
      "Examples:\n"
      "  srun --ntasks-per-node=1 memreel-fleet-mpi /local/job -o results -- --json\n"
      "  mpirun -n 4 memreel-fleet-mpi job/ -o results --mesh pp=4,dp=4");
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): it ends the process at once, and so the job; others wait for this one
int main(int argc, char** argv) {
  char** const separator =
      std::find_if(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
  std::vector<std::string> rest(std::min(separator + 1, argv + argc), argv + argc);
  Arguments arguments;
  CLI::App app("memreel fleet on many nodes, by MPI.", "memreel-fleet-mpi");
  add_options(app, arguments);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return fail({.what = problem.what(), .remedy = "see memreel-fleet-mpi --help"});
  }
  const Result<FleetQuestion> question = question_of(arguments);
  if (!question) return fail(question.error());
  bool first = false;
  {
    const mpi::Session session(argc, argv);
    first = session.first();
    const Recordings recordings = find_recordings(session, arguments.files);
    // All processes know, so they end by themselves: the message of a job that is aborted can be lost.
    if (recordings.files.empty()) return first ? fail(recordings.none) : 0;
    if (const auto problem = work(session, recordings, arguments, *question)) {
      // Others may be waiting for this process, so end them too. Finished work is kept.
      const int code = fail(*problem);
      mpi::end_all(code);
    }
  }
  if (!first) return 0;
  return become(merge_words(arguments, rest));
}
