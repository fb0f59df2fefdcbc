// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

#include "analyzer/cli/fleet_report.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/fleet/fleet_tables.h"
#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/map.h"
#include "analyzer/fleet/settings_search.h"
#include "formats/command_line/combinations.h"
#include "formats/command_line/option_values.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/writer/trace_writer.h"

namespace memreel::cli {
namespace {

namespace fs = std::filesystem;

struct FleetArguments : FleetWords {
  std::vector<fs::path> files;
  fs::path out, html, parquet;
  std::string shard, engine;
  std::size_t top = 10;
  unsigned jobs = 0;
  Bytes max_memory;
  bool json = false, no_setting = false, allow_incomplete = false, resume = false;
};

Result<FleetQuestion> question_of(const FleetArguments& arguments) {
  Result<FleetQuestion> question = parse_question(arguments);
  if (!question) return question;
  question->map.out = arguments.out;
  question->map.jobs = arguments.jobs;
  question->map.resume = arguments.resume;
  return question;
}

Result<void> outputs_suit(const FleetArguments& arguments, std::span<const fs::path> inputs) {
  std::vector<fs::path> outputs{arguments.html};
  if (!arguments.parquet.empty())
    for (const std::string_view name : fleet_table_names) outputs.push_back(arguments.parquet / name);
  if (arguments.json)
    if (Result<void> room = leave_room_for_json(outputs); !room) return room;
  return must_differ(inputs, outputs);
}

Result<void> write_files(const FleetArguments& arguments, const FleetReport& report) {
  if (!arguments.html.empty()) {
    auto written = write_output(arguments.html, [&](std::ostream& out) -> Result<void> {
      write_fleet_html(report, out);
      return {};
    });
    if (!written) return written;
  }
  if (arguments.parquet.empty()) return {};
  std::error_code problem;
  fs::create_directories(arguments.parquet, problem);
  if (problem)
    return Error{.what = "can't be made: " + problem.message(),
                 .where = arguments.parquet.string(),
                 .remedy = "name another directory with --parquet"};
  for (const FleetTable& table : fleet_tables(report.fleet, report.setting ? &*report.setting : nullptr)) {
    auto written = write_output(arguments.parquet / table.name, [&](std::ostream& out) -> Result<void> {
      out << table.content;
      return {};
    });
    if (!written) return written;
  }
  return {};
}

/// Judges each job from its summaries and prints the results.
Exit judge(std::vector<RankSummary> summaries, std::vector<fs::path> skipped, const FleetArguments& arguments,
           const FleetQuestion& question) {
  Result<std::vector<Fleet>> fleets = assemble_jobs(std::move(summaries), question.fleet);
  if (!fleets) return fail(fleets.error());
  if (const auto known = must_have_heap(*fleets, arguments.heap); !known) return fail(known.error());
  if (fleets->size() > 1 && !(arguments.html.empty() && arguments.parquet.empty()))
    return fail({.what = "these are recordings of " + std::to_string(fleets->size()) + " jobs, and a page is of one",
                 .where = arguments.html.empty() ? "--parquet" : "--html",
                 .remedy = "choose a job, such as --job '" + fleets->front().job + "'"});
  std::vector<FleetReport> jobs;
  bool answered = true;
  for (Fleet& fleet : *fleets) {
    FleetReport& report = jobs.emplace_back(FleetReport{.fleet = std::move(fleet), .setting = {}, .skipped = {}});
    if (!arguments.no_setting && report.fleet.decides) {
      const ProgressBar bar("replaying settings on every class");
      report.setting = find_common_setting(report.fleet, {.capacity = question.fleet.capacity,
                                                          .out = arguments.out,
                                                          .limits = question.map.limits,
                                                          .jobs = arguments.jobs});
    }
    const bool judged = report.fleet.complete() || (arguments.allow_incomplete && report.fleet.decides);
    answered = answered && judged && (!report.fleet.decides || report.fleet.decides->failed.empty());
  }
  jobs.front().skipped = std::move(skipped);
  if (auto written = write_files(arguments, jobs.front()); !written) return fail(written.error());
  if (arguments.json)
    write_fleet_json(jobs, std::cout);
  else if (!take_standard_output(std::array{arguments.html}))
    print_fleet_text(jobs, arguments.top, std::cout);
  return answered ? Exit::done : Exit::negative;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment
  if (value == nullptr) return std::nullopt;
  return value;
}

/// Replaces this process with the Python module memreel.on_ray, which calls `fleet map` for every file and then `fleet
/// merge`.
Exit run_ray(const FleetArguments& arguments, const std::vector<fs::path>& files) {
  if (arguments.out.empty())
    return fail(
        {.what = "keeps its results in a directory that all nodes share", .where = "--engine ray", .remedy = "-o OUT"});
  std::error_code problem;
  std::vector<std::string> words{environment_variable("MEMREEL_PYTHON").value_or("python3"),
                                 "-m",
                                 "memreel.on_ray",
                                 "--memreel",
                                 fs::read_symlink("/proc/self/exe", problem).string(),
                                 "--out",
                                 fs::absolute(arguments.out).string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--rank-pattern", arguments.rank_pattern);
  add("--heap", arguments.heap);
  add("--job", arguments.job);
  add("--memory-limit", arguments.memory_limit);
  add("--host-memory", arguments.host_memory);
  if (arguments.time_limit > 0) add("--time-limit", std::to_string(arguments.time_limit));
  if (arguments.world_size) add("--world-size", std::to_string(*arguments.world_size));
  add("--mesh", arguments.mesh);
  add("--capacity", arguments.capacity);
  add("--html", arguments.html.string());
  add("--parquet", arguments.parquet.string());
  add("--top", std::to_string(arguments.top));
  if (arguments.json) words.emplace_back("--json");
  if (arguments.no_setting) words.emplace_back("--no-setting");
  if (arguments.allow_incomplete) words.emplace_back("--allow-incomplete");
  if (arguments.resume) words.emplace_back("--resume");
  // There may be more files than fit on a command line.
  std::string list;
  for (const fs::path& file : files) list += file.string() + "\n";
  const fs::path listed = fs::absolute(arguments.out) / "recordings.txt";
  fs::create_directories(arguments.out, problem);
  if (auto written = write_whole(listed, list); !written) return fail(written.error());
  words.insert(words.end(), {"--files-from", listed.string()});
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  execvp(raw.front(), raw.data());
  return fail({.what = "can't start " + words.front(), .where = "--engine ray", .remedy = "pip install memreel[ray]"});
}

Exit run_fleet(const FleetArguments& arguments) {
  Result<FleetQuestion> question = question_of(arguments);
  if (!question) return fail(question.error());
  if (!arguments.engine.empty() && arguments.engine != "ray")
    return fail({.what = "unknown engine '" + arguments.engine + "'",
                 .where = "--engine",
                 .remedy = "available: ray; for MPI start memreel-fleet-mpi with mpirun"});
  if (arguments.files.empty())
    return fail(
        {.what = "no recordings given", .remedy = "memreel fleet FILES or directories; see memreel fleet --help"});
  Result<FleetInputs> inputs = find_inputs(arguments.files);
  if (!inputs) return fail(inputs.error());
  if (const auto suit = outputs_suit(arguments, inputs->files); !suit) return fail(suit.error());
  if (arguments.engine == "ray") return run_ray(arguments, inputs->files);
  bound_memory(inputs->files, arguments.max_memory);
  std::vector<RankSummary> summaries;
  {
    ProgressBar bar("reading " + counted(inputs->files.size(), "recording"));
    question->map.on_progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    summaries = summarize_recordings(inputs->files, question->map);
  }
  return judge(std::move(summaries), std::move(inputs->skipped), arguments, *question);
}

void note_files(const std::string& what, std::vector<fs::path> files, const std::string& remedy) {
  if (files.empty()) return;
  constexpr std::size_t most = 5;
  std::ranges::sort(files);
  std::string text = what + ": ";
  for (std::size_t i = 0; i < std::min(most, files.size()); ++i) text += (i > 0 ? ", " : "") + files[i].string();
  if (files.size() > most) text += " and " + std::to_string(files.size() - most) + " more";
  note(text + " (" + remedy + ")");
}

/// The answer of `fleet` lists them; that of `merge` can't.
void note_unread(std::vector<fs::path> unread) {
  note_files("not read", std::move(unread),
             "links, pipes, or folders that can't be entered; name them to have them read");
}

Exit run_map(const FleetArguments& arguments) {
  Result<FleetQuestion> question = question_of(arguments);
  if (!question) return fail(question.error());
  const Result<Shard> shard = arguments.shard.empty() ? shard_of(environment_variable) : parse_shard(arguments.shard);
  if (!shard) return fail(shard.error());
  Result<FleetInputs> inputs = find_inputs(arguments.files);
  if (!inputs) return fail(inputs.error());
  note_unread(inputs->unread);
  const std::vector<fs::path> files = files_of_shard(inputs->files, shard->index, shard->count);
  if (shard->count > 1 && arguments.shard.empty()) {
    const std::set<fs::path> own(files.begin(), files.end());
    for (const fs::path& file : inputs->files)
      if (!own.contains(file) && !machine_of(file).empty()) question->map.of_others.push_back(file);
    sort_by_size(question->map.of_others);
  }
  const Result<MapOutcome> outcome = [&] {
    ProgressBar bar("reading " + counted(files.size(), "recording"));
    question->map.on_progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    return map_recordings(files, question->map);
  }();
  if (!outcome) return fail(outcome.error());
  std::string text = counted(outcome->done, "result") + " in " + arguments.out.string();
  if (outcome->of_others > 0) text += ", " + text_of(outcome->of_others) + " of them of other parts";
  if (outcome->left > 0) text += ", " + text_of(outcome->left) + " were already there";
  if (!shard->from.empty())
    text += "; part " + std::to_string(shard->index) + " of " + std::to_string(shard->count) + " (" + shard->from + ")";
  std::cout << text << '\n';
  return Exit::done;
}

Exit run_merge(const FleetArguments& arguments) {
  const Result<FleetQuestion> question = question_of(arguments);
  if (!question) return fail(question.error());
  std::error_code problem;
  std::vector<fs::path> results;
  for (const fs::directory_entry& entry : fs::directory_iterator(arguments.out, problem))
    results.push_back(entry.path());
  bound_memory(results, arguments.max_memory);
  Result<std::vector<RankSummary>> summaries = read_results(arguments.out, arguments.heap);
  if (!summaries) return fail(summaries.error());
  for (const RankSummary& summary : *summaries) results.emplace_back(summary.file);
  if (const auto suit = outputs_suit(arguments, results); !suit) return fail(suit.error());
  note_files("judged by its results, but deleted since", deleted_recordings(*summaries),
             "if they are of another run, delete " + arguments.out.string() + " and map again");
  return judge(*std::move(summaries), {}, arguments, *question);
}

Exit run_settings(const FleetArguments& arguments) {
  const Result<FleetQuestion> question = question_of(arguments);
  if (!question) return fail(question.error());
  const Result<Shard> shard = arguments.shard.empty() ? shard_of(environment_variable) : parse_shard(arguments.shard);
  if (!shard) return fail(shard.error());
  Result<std::vector<RankSummary>> summaries = read_results(arguments.out, arguments.heap);
  if (!summaries) return fail(summaries.error());
  const Result<std::vector<Fleet>> fleets = assemble_jobs(*std::move(summaries), question->fleet);
  if (!fleets) return fail(fleets.error());
  if (const auto known = must_have_heap(*fleets, arguments.heap); !known) return fail(known.error());
  std::size_t done = 0, others = 0;
  for (const Fleet& fleet : *fleets) {
    if (!fleet.decides) continue;
    const ProgressBar bar("replaying settings");
    const SharedWork shared = share_common_setting(fleet,
                                                   {.capacity = question->fleet.capacity,
                                                    .out = arguments.out,
                                                    .limits = question->map.limits,
                                                    .jobs = arguments.jobs},
                                                   *shard);
    done += shared.done;
    others += shared.others;
  }
  std::cout << "settings replayed on " << text_of(done) << (done == 1 ? " class" : " classes") << "; "
            << text_of(others) << " by others\n";
  return Exit::done;
}

void add_fleet_options(CLI::App& command, FleetArguments& arguments) {
  add_whole_number(command, "--world-size", arguments.world_size, {1, any_count},
                   "Number of ranks in the job [from the recordings, else the highest rank]");
  command.add_option("--mesh", arguments.mesh, "How ranks are laid out, slowest axis first, e.g. pp=4,dp=4");
  command.add_option("--capacity", arguments.capacity, "Memory of each device, e.g. 80GiB [as recorded]");
  command.add_option("--job", arguments.job, "Only this one, if there are recordings of several");
}

void add_judging_options(CLI::App& command, FleetArguments& arguments) {
  add_fleet_options(command, arguments);
  command.add_flag("--no-setting", arguments.no_setting, "Don't search for a setting that suits all ranks");
  command.add_flag("--allow-incomplete", arguments.allow_incomplete,
                   "Exit code 0 even if ranks are missing or incomplete");
  add_whole_number(command, "--top", arguments.top, {1, any_count}, "Rows to show per table [10]");
  command.add_option("--html", arguments.html, "Also write an HTML page with charts");
  command.add_option("--parquet", arguments.parquet,
                     "Also write the tables ranks, settings, sites and timeline into this directory");
  command.add_flag("--json", arguments.json, "One JSON document (memreel.fleet/1) instead of text");
  add_memory_option(command, arguments.max_memory);
}

void add_reading_options(CLI::App& command, FleetArguments& arguments) {
  command.add_option("--rank-pattern", arguments.rank_pattern,
                     "Regular expression whose first group is the rank, where neither recordings nor names show it; "
                     "comes before both");
  add_heap_option(command, arguments.heap, "Judge", " on each rank, as if it had the device for itself");
}

void add_limits(CLI::App& command, FleetArguments& arguments) {
  add_whole_number(command, "-j,--jobs", arguments.jobs, {1, most_jobs}, "Recordings read at once [one per core]");
  command.add_option("--memory-limit", arguments.memory_limit, "Memory limit for reading one recording [16GiB]");
  command.add_option("--host-memory", arguments.host_memory,
                     "Memory for everything that this user reads on one machine at a time, by any number of commands "
                     "[80 % of the machine or container]");
  add_whole_number(command, "--time-limit", arguments.time_limit, {1, most_time_limit},
                   "Limit in seconds for reading one recording [600]");
}

void add_map_command(CLI::App& fleet, const std::shared_ptr<FleetArguments>& arguments, Exit& exit) {
  CLI::App* const map =
      fleet.add_subcommand("map", "Do one part of the work, on one of many machines: a result file per recording");
  map->add_option("FILES", arguments->files, "Recordings or directories of them")->required();
  map->add_option("-o,--output", arguments->out, "Directory of the results, which all parts share")->required();
  map->add_option("--shard", arguments->shard,
                  "Part and number of parts, e.g. 0/8 [from Slurm, Open MPI, PMI, torchrun or Kubernetes, else all]");
  map->add_flag("--resume", arguments->resume, "Skip recordings that are done, unless they have changed");
  add_reading_options(*map, *arguments);
  add_limits(*map, *arguments);
  map->footer(
      "Results appear when complete, so a killed process loses only its current one. How the work is "
      "divided does not change the results.\n\n"
      "Examples:\n"
      "  srun memreel fleet map job/ -o results && memreel fleet merge results\n"
      "  memreel fleet map job/ -o results --shard 0/2 & memreel fleet map job/ -o results --shard 1/2 & wait");
  map->callback([arguments, &exit] { exit = run_map(*arguments); });
}

void add_settings_command(CLI::App& fleet, const std::shared_ptr<FleetArguments>& arguments, Exit& exit) {
  CLI::App* const settings = fleet.add_subcommand(
      "settings", "Between map and merge, for jobs of many classes: do a part of the search for a common setting");
  settings->add_option("OUT", arguments->out, "Directory of the results, which all parts share")->required();
  settings->add_option("--shard", arguments->shard,
                       "Where to begin, e.g. 0/8 [from Slurm, Open MPI, PMI, torchrun or Kubernetes, else 0/1]");
  add_fleet_options(*settings, *arguments);
  add_reading_options(*settings, *arguments);
  add_limits(*settings, *arguments);
  settings->footer(
      "Any number of processes, on any machines, each take what no other has in hand, of the recordings that they can "
      "read. fleet merge uses their replays, and makes those that are missing. Give both the same options.\n\n"
      "Examples:\n"
      "  srun memreel fleet map job/ -o results && srun memreel fleet settings results && memreel fleet merge results");
  settings->callback([arguments, &exit] { exit = run_settings(*arguments); });
}

void add_merge_command(CLI::App& fleet, const std::shared_ptr<FleetArguments>& arguments, Exit& exit) {
  CLI::App* const merge = fleet.add_subcommand("merge", "Combine the results of fleet map into one answer");
  merge->add_option("OUT", arguments->out, "Directory of the results")->required();
  add_judging_options(*merge, *arguments);
  add_reading_options(*merge, *arguments);
  add_limits(*merge, *arguments);
  merge->footer(
      "The search for a common setting opens the recordings again, one or two of each class; --no-setting skips "
      "it.");
  merge->callback([arguments, &exit] { exit = run_merge(*arguments); });
}

}  // namespace

Result<void> must_have_heap(std::span<const Fleet> jobs, const std::string& heap) {
  std::set<std::string> known;
  for (const Fleet& job : jobs)
    for (const FleetRow& row : job.rows) known.insert(row.summary.heaps.begin(), row.summary.heaps.end());
  return known.empty() ? Result<void>() : must_have_heap(known, heap);
}

void add_fleet_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand(
      "fleet", "Judge all ranks of a job: which rank decides, stands out or leaks, and what helps all");
  const auto arguments = std::make_shared<FleetArguments>();
  command->add_option("FILES", arguments->files, "Recordings or directories of them, of any format that import reads");
  add_judging_options(*command, *arguments);
  add_reading_options(*command, *arguments);
  add_limits(*command, *arguments);
  command->add_option("--engine", arguments->engine,
                      "ray: work on the nodes of a Ray cluster (pip install memreel[ray])");
  command->add_option("-o,--output", arguments->out, "With --engine: directory of the results, which all nodes share");
  command->add_flag("--resume", arguments->resume, "With --engine: skip recordings that are done");
  only_with(*command, {"--output", "--resume"}, {"--engine"});
  add_map_command(*command, arguments, exit);
  add_settings_command(*command, arguments, exit);
  add_merge_command(*command, arguments, exit);
  command->footer(
      "Exit code 0: every rank's recording is complete, and none ran out of memory; 1: otherwise, and the answer says "
      "which; 2: bad usage, or nothing to read.\n\n"
      "Examples:\n"
      "  memreel record -o 'job/%r.reel' -- torchrun --nproc-per-node 8 train.py\n"
      "  memreel fleet job/\n"
      "  memreel fleet job/ --mesh pp=4,dp=4 --capacity 80GiB --html job.html\n"
      "  memreel fleet snapshots/*.pickle --json | jq .decides");
  command->callback([command, arguments, &exit] {
    if (command->get_subcommands().empty()) exit = run_fleet(*arguments);
  });
}

}  // namespace memreel::cli
