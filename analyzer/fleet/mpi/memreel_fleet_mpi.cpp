// SPDX-License-Identifier: Apache-2.0
// memreel-fleet-mpi: the work of `memreel fleet` on many nodes. Files are read where they are, and results are written
// to files in a shared directory; the final answer is that of `memreel fleet merge`, which finds all work done.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/map.h"
#include "analyzer/fleet/mpi/exchange.h"
#include "analyzer/fleet/settings_search.h"
#include "formats/command_line/help.h"
#include "formats/command_line/option_values.h"
#include "formats/command_line/parse_errors.h"

namespace {

namespace fs = std::filesystem;
using namespace memreel;  // NOLINT(google-build-using-namespace): a program of one file

struct Arguments : FleetWords {
  std::vector<fs::path> files;
  fs::path out;
  unsigned jobs = 1;
  bool resume = false, no_setting = false;
};

/// Writes the message in one piece: other processes write to the same terminal.
int fail(const Error& error) {
  std::cerr << error_line(error, "memreel-fleet-mpi");
  return exit_unusable;
}

Result<FleetQuestion> question_of(const Arguments& arguments) {
  Result<FleetQuestion> question = parse_question(arguments);
  if (!question) return question;
  question->map.out = fs::absolute(arguments.out).lexically_normal();
  question->map.resume = arguments.resume;
  return question;
}

/// Which processes can read a file, by its path and machine.
class Reach {
 public:
  explicit Reach(const std::vector<mpi::Item>& items) {
    for (const mpi::Item& item : items)
      processes_[{item.file.string(), item.machine}] = {item.processes.begin(), item.processes.end()};
  }
  bool has(const std::string& file, const std::string& machine, int process) const {
    const auto found = processes_.find({file, machine});
    return found == processes_.end() ? machine.empty() : found->second.contains(process);
  }

 private:
  std::map<std::pair<std::string, std::string>, std::set<int>> processes_;
};

/// The recordings that processes can read.
struct Recordings {
  std::vector<std::string> files, machines;  // largest first, the same on every process
  Reach reach;
  Error none;  // if there are no files: why this process found none
};

/// Collective. A node without files of its own still helps with those that all can read, and in the second round.
Recordings find_recordings(const mpi::Session& session, const std::vector<fs::path>& named) {
  const Result<FleetInputs> inputs = find_inputs(named);
  if (inputs)
    for (const fs::path& unread : inputs->unread)
      if (session.first()) std::cerr << "memreel-fleet-mpi: note: not read: " + unread.string() + '\n';
  const std::vector<mpi::Item> items = mpi::gather(session, inputs ? inputs->files : std::vector<fs::path>{});
  std::vector<std::string> files, machines;
  for (const mpi::Item& item : items) {
    files.push_back(item.file.string());
    machines.push_back(item.machine);
  }
  files = mpi::broadcast(session, files);
  machines = mpi::broadcast(session, machines);
  return {.files = std::move(files),
          .machines = std::move(machines),
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
      [&](std::size_t i, int process) { return recordings.reach.has(files[i], recordings.machines[i], process); },
      [&](std::size_t i) {
        if (options.resume && has_result(files[i], options)) return std::string();
        return judge_recording(files[i], options);
      },
      [&](std::size_t i, const ChildOutcome& outcome) {
        if (outcome.output.empty() && outcome.failure.empty()) return;
        if (auto kept = keep_outcome(files[i], outcome, options); !kept && !problem) problem = std::move(kept).error();
      },
      [&](std::size_t i) { return file_bytes(files[i]); });
  return problem;
}

// A round of the search as texts, which the first process sends to all.
constexpr std::size_t words_of_work = 8;

std::vector<std::string> text_of(const std::vector<SettingWork>& works) {
  std::vector<std::string> words;
  for (const SettingWork& work : works) {
    std::string candidates;
    for (const std::string& candidate : work.candidates) candidates += candidate + '\n';
    words.insert(words.end(),
                 {work.task.file, work.task.witness, work.task.machine,
                  work.task.limit ? std::to_string(work.task.limit->count) : std::string(),
                  work.proposes ? "proposes" : "", work.verifies ? "verifies" : "", work.task.heap, candidates});
  }
  return words;
}

std::vector<SettingWork> works_in(const std::vector<std::string>& words) {
  std::vector<SettingWork> works;
  for (std::size_t at = 0; at + words_of_work <= words.size(); at += words_of_work) {
    const std::string& limit = words[at + 3];
    SettingWork& work = works.emplace_back(
        SettingWork{.task = {.file = words[at],
                             .witness = words[at + 1],
                             .machine = words[at + 2],
                             .limit = limit.empty() ? std::nullopt : std::optional(Bytes{std::stoull(limit)}),
                             .heap = words[at + 6]},
                    .proposes = !words[at + 4].empty(),
                    .verifies = !words[at + 5].empty()});
    std::string_view rest = words[at + 7];
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1))
      work.candidates.emplace_back(rest.substr(0, end));
  }
  return works;
}

/// Round two: settings are replayed. Results are kept in files, which `fleet merge` reads.
void find_settings(const mpi::Session& session, const Fleet& fleet, const Reach& reach, const Arguments& arguments,
                   const SettingOptions& options) {
  const auto share = [&](const std::vector<SettingWork>& works) {
    mpi::share_out(
        session, works.size(), arguments.jobs, options.limits,
        [&](std::size_t i, int process) {
          const ReplayTask& task = works[i].task;
          return reach.has(task.file, task.machine, process) &&
                 (task.witness.empty() || reach.has(task.witness, task.machine, process));
        },
        [&](std::size_t i) { return do_work(works[i], options.out); }, [](std::size_t, const ChildOutcome&) {},
        [&](std::size_t i) { return file_bytes(works[i].task.file); });
  };
  if (!session.first()) {
    // An empty round is the end.
    while (true) {
      const std::vector<SettingWork> works = works_in(mpi::broadcast(session, {}));
      if (works.empty()) return;
      share(works);
    }
  }
  find_common_setting(fleet, options, [&](const std::vector<SettingWork>& works, bool /*last*/) {
    std::vector<std::string> results(works.size());
    if (works.empty()) return results;
    mpi::broadcast(session, text_of(works));
    share(works);
    for (std::size_t i = 0; i < works.size(); ++i) results[i] = known_result(works[i], options.out).value_or("");
    return results;
  });
  mpi::broadcast(session, {});
}

/// The arguments of `memreel fleet merge` that correspond to ours, plus what follows `--` on our command line.
std::vector<std::string> merge_words(const Arguments& arguments, const std::vector<std::string>& rest) {
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  std::vector<std::string> words{(self.parent_path() / "memreel").string(), "fleet", "merge", arguments.out.string()};
  if (!arguments.job.empty()) words.insert(words.end(), {"--job", arguments.job});
  if (!arguments.heap.empty()) words.insert(words.end(), {"--heap", arguments.heap});
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
    Result<std::vector<RankSummary>> summaries = read_results(question.map.out, question.map.heap);
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
  add_whole_number(app, "-j,--jobs", arguments.jobs, {1, most_jobs}, "Recordings that each process reads at once [1]");
  app.add_option("--rank-pattern", arguments.rank_pattern, "As in memreel fleet");
  app.add_option("--heap", arguments.heap, "As in memreel fleet")->type_name("NAME");
  app.add_option("--job", arguments.job, "As in memreel fleet");
  add_whole_number(app, "--world-size", arguments.world_size, {1, any_count}, "As in memreel fleet");
  app.add_option("--mesh", arguments.mesh, "As in memreel fleet");
  app.add_option("--capacity", arguments.capacity, "As in memreel fleet");
  app.add_flag("--no-setting", arguments.no_setting, "As in memreel fleet");
  app.add_option("--memory-limit", arguments.memory_limit, "Memory limit for reading one recording [16GiB]");
  app.add_option("--host-memory", arguments.host_memory, "Memory for everything that is read on one node at a time");
  add_whole_number(app, "--time-limit", arguments.time_limit, {1, most_time_limit},
                   "Limit in seconds for reading one recording [600]");
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
  fit_help(app);
  add_options(app, arguments);
  if (const auto problem = empty_value(std::span(argv, separator).subspan(1))) return fail(*problem);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ParseError& problem) {
    const Result<int> answered = answer_parse(app, problem);
    return answered ? *answered : fail(answered.error());
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
