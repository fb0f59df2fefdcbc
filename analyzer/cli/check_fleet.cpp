// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/check_fleet.h"

#include <algorithm>
#include <charconv>

#include "analyzer/cli/fleet_report.h"
#include "analyzer/cli/program.h"
#include "analyzer/fleet/fleet_gate.h"
#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/map.h"
#include "formats/model/files.h"

namespace memreel::cli {
namespace {

Result<void> read_size(std::optional<Bytes>& into, const std::string& text, const char* option,
                       Result<Bytes> (*parse)(std::string_view, const char*) = parse_limit) {
  if (text.empty()) return {};
  const Result<Bytes> size = parse(text, option);
  if (!size) return size.error();
  into = *size;
  return {};
}

Result<FleetBudgets> budgets_of(const CheckFleetArguments& arguments) {
  FleetBudgets budgets{.all_fit = !arguments.capacity.empty()};
  Result<void> done = read_size(budgets.max_reserved, arguments.max_reserved, "--max-reserved");
  if (done) done = read_size(budgets.max_p99, arguments.max_p99, "--max-p99");
  if (done) done = read_size(budgets.min_headroom, arguments.min_headroom, "--min-headroom");
  if (done) done = read_size(budgets.max_leaked, arguments.max_leaked, "--max-leaked", parse_size);
  if (!done) return std::move(done).error();
  if (const std::string& text = arguments.max_imbalance; !text.empty()) {
    budgets.max_imbalance = parse_fraction(text, std::chars_format::general);
    if (budgets.max_imbalance.value_or(0) < 1)
      return Error{.what = "'" + text + "' is not a ratio from 1 on",
                   .where = "--max-imbalance",
                   .remedy = "1.2: a fifth above the mean"};
  }
  return budgets;
}

Result<FleetBaseline> read_baseline_of_job(const std::filesystem::path& file) {
  const Result<std::string> text =
      read_whole_file(file, "write it with memreel check --fleet FILES --write-baseline F");
  if (!text) return text.error();
  return parse_fleet_baseline(*text, file.string());
}

Error of_another_heap(const FleetBaseline& before, const CheckFleetArguments& arguments) {
  return {.what = before.heap.empty() ? "is not of one heap" : "is of the heap '" + before.heap + "'",
          .where = arguments.baseline.string(),
          .remedy = before.heap.empty() ? "leave out --heap, or write another with --write-baseline"
                                        : "give --heap " + before.heap + ", or write another with --write-baseline"};
}

Result<Fleet> fleet_of(const CheckFleetArguments& arguments, const FleetInputs& inputs) {
  FleetOptions options{.world_size = arguments.world_size, .job = arguments.job, .heap = arguments.heap};
  MapOptions map{.heap = arguments.heap};
  if (!arguments.rank_pattern.empty()) {
    Result<RankPattern> pattern = RankPattern::parse(arguments.rank_pattern);
    if (!pattern) return std::move(pattern).error();
    options.pattern = *std::move(pattern);
  }
  if (!arguments.capacity.empty()) {
    const Result<Bytes> capacity = parse_capacity_size(arguments.capacity);
    if (!capacity) return capacity.error();
    options.capacity = *capacity;
  }
  bound_memory(inputs.files, arguments.memory_limit);
  ProgressBar bar("reading " + counted(inputs.files.size(), "recording"));
  map.on_progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  Result<std::vector<Fleet>> jobs = assemble_jobs(summarize_recordings(inputs.files, map), options);
  if (!jobs) return std::move(jobs).error();
  if (const auto known = must_have_heap(*jobs, arguments.heap); !known) return known.error();
  if (jobs->size() == 1) return std::move(jobs->front());
  std::string names;
  for (const Fleet& job : *jobs) names += (names.empty() ? "" : ", ") + job.job;
  return Error{.what = "holds recordings of " + std::to_string(jobs->size()) + " jobs: " + names,
               .where = arguments.files.front().string(),
               .remedy = "check one of them: --job NAME"};
}

/// Refused requests are the job's end, whatever the budgets.
Check failures_of(const Fleet& fleet) {
  Check check{.name = "out-of-memory", .of = CheckOf::all, .value = RankCount{}, .limit = RankCount{}};
  if (!fleet.decides || fleet.decides->failed.empty()) return check;
  const FleetRow& first = fleet.rows[fleet.decides->failed.front()];
  check.of = CheckOf::rank;
  check.number = static_cast<std::int32_t>(first.rank);
  check.value = RankCount{fleet.decides->failed.size()};
  check.reason = "rank " + std::to_string(first.rank) + ": " + fleet.decides->fails_why;
  return check;
}

Json document_of(const GateOutcome& outcome, const CheckFleetArguments& arguments) {
  Json list = Json::array();
  for (const Check& check : outcome.checks) {
    Json entry{{"name", check.name}, {"rank", check.of == CheckOf::all ? Json(nullptr) : Json(check.number)}};
    entry.update(json_of_figures(check));
    list.push_back(std::move(entry));
  }
  Json files = Json::array();
  for (const std::filesystem::path& file : arguments.files) files.push_back(file.string());
  return {{"schema", "memreel.check/1"},
          {"fleet", std::move(files)},
          {"passed", outcome.passed()},
          {"checks", std::move(list)}};
}

Result<Exit> judge_job(const CheckFleetArguments& arguments, const FleetInputs& inputs) {
  const Result<FleetBudgets> budgets = budgets_of(arguments);
  if (!budgets) return budgets.error();
  if (!budgets->any() && arguments.baseline.empty() && arguments.write_baseline.empty())
    return Error{.what = "nothing to check",
                 .remedy = "give a budget such as --max-reserved 70GiB or --min-headroom 4GiB, or a --baseline"};
  std::optional<FleetBaseline> before;
  if (!arguments.baseline.empty()) {
    Result<FleetBaseline> baseline = read_baseline_of_job(arguments.baseline);
    if (!baseline) return baseline.error();
    before = *std::move(baseline);
  }
  if (before && before->heap != arguments.heap) return of_another_heap(*before, arguments);
  const Result<Fleet> fleet = fleet_of(arguments, inputs);
  if (!fleet) return fleet.error();
  Result<std::vector<Check>> checks = check_fleet(*fleet, *budgets);
  if (!checks) return checks.error();
  checks->insert(
      checks->begin(),
      {check_complete(*fleet, gaps_of(*fleet, *budgets, before), arguments.allow_incomplete), failures_of(*fleet)});
  if (before) {
    const std::vector<Check> more = check_fleet(*fleet, *before, arguments.tolerance);
    if (more.empty()) return Error{.what = "has no rank in common with this job", .where = arguments.baseline.string()};
    checks->insert(checks->end(), more.begin(), more.end());
  }
  const GateOutcome outcome{
      .subject = counted(fleet->world_size, "rank"), .checks = *std::move(checks), .is_of_job = true};
  const CheckOutputs outputs = arguments.outputs();
  if (const auto written = write_outcome(outcome, text_of(baseline_of(*fleet)), outputs); !written)
    return written.error();
  if (arguments.json)
    print_json(document_of(outcome, arguments));
  else
    print_outcome(outcome, outputs);
  return outcome.passed() ? Exit::done : Exit::negative;
}

/// What can be found of what is named, to be spared.
std::vector<std::filesystem::path> found_of(std::span<const std::filesystem::path> named) {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& one : named)
    if (const Result<FleetInputs> inputs = find_inputs(std::span(&one, 1)))
      found.insert(found.end(), inputs->files.begin(), inputs->files.end());
  return found;
}

}  // namespace

Exit run_check_fleet(const CheckFleetArguments& arguments) {
  const Result<FleetInputs> inputs = find_inputs(arguments.files);
  const CheckOutputs outputs = arguments.outputs();
  if (auto differ = outputs_differ(inputs ? inputs->files : found_of(arguments.files), outputs); !differ)
    return fail(differ.error());
  const Result<Exit> judged = inputs ? judge_job(arguments, *inputs) : inputs.error();
  return judged ? *judged : unjudged(judged.error(), outputs, "job");
}

}  // namespace memreel::cli
