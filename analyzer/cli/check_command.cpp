// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>

#include "analyzer/cli/check_fleet.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/cli/report_leaks.h"
#include "analyzer/gate/measured.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/registry.h"
#include "formats/command_line/combinations.h"
#include "formats/command_line/option_values.h"
#include "formats/model/quantity.h"
#include "memreel/version.h"

namespace memreel::cli {
namespace {

constexpr double default_tolerance = 0.01;

struct CheckArguments {
  std::filesystem::path file;
  Bytes memory_limit;
  std::string max_peak, max_reserved, max_leaked, max_fragmentation, capacity, tolerance;
  CheckFleetArguments fleet;  // for jobs only
  std::vector<std::string> policies, max_category;
  std::string heap;
  std::filesystem::path baseline, write_baseline, junit, markdown;
  LeakArguments leaks;
  SymbolOptions symbols;
  bool valid = false;
  bool allow_incomplete = false;
  bool json = false;

  CheckOutputs outputs() const {
    return {.baseline = write_baseline, .junit = junit, .markdown = markdown, .json = json, .old_baseline = baseline};
  }
};

/// The parsed arguments.
struct Question {
  Budgets budgets;
  double tolerance = default_tolerance;
  std::vector<PolicySpec> policies;  // empty: what the program ran with
  std::optional<Measured> baseline;
  MeasureOptions measure;
  LeakOptions leaks;
};

/// "0.15" or "15%".
Result<double> parse_share(std::string_view text, std::string where) {
  const bool percent = text.ends_with('%');
  const std::string_view number = percent ? text.substr(0, text.size() - 1) : text;
  const double value = parse_fraction(number, std::chars_format::general).value_or(-1) / (percent ? 100 : 1);
  if (value < 0 || value > 1)
    return Error{.what = "'" + std::string(text) + "' is not a fraction or percentage",
                 .where = std::move(where),
                 .remedy = "write 0.15 or 15%; 0 to 100%"};
  return value;
}

/// Sets `into` when `text` was given.
template <class Value, class Parse>
Result<void> set(std::optional<Value>& into, const std::string& text, const char* option, Parse parse) {
  if (text.empty()) return {};
  Result<Value> value = parse(text, option);
  if (!value) return std::move(value).error();
  into = *value;
  return {};
}

/// By its name in documents, or as reports show it: "optimizer_state", "optimizer state".
std::optional<Category> category_named(std::string_view text) {
  for (std::size_t c = 0; c < category_count; ++c)
    if (words_of(static_cast<Category>(c)) == text) return static_cast<Category>(c);
  return category_by_name(text);
}

/// "activation=20GiB".
Result<std::map<Category, Bytes>> parse_categories(const std::vector<std::string>& texts) {
  std::map<Category, Bytes> limits;
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::optional<Category> category = category_named(text.substr(0, equals));
    if (!category || equals == text.size()) {
      std::string known;
      for (std::size_t c = 0; c < category_count; ++c)
        known += (c == 0 ? "" : ", ") + std::string(name_of(static_cast<Category>(c)));
      return Error{
          .what = category ? "'" + text + "' has no size" : "unknown category '" + text.substr(0, equals) + "'",
          .where = "--max-category",
          .remedy = "e.g. activation=20GiB; categories: " + known};
    }
    const Result<Bytes> limit = parse_limit(text.substr(equals + 1), "--max-category");
    if (!limit) return limit.error();
    if (!limits.try_emplace(*category, *limit).second)
      return Error{.what = "the category '" + std::string(name_of(*category)) + "' is given twice",
                   .where = "--max-category",
                   .remedy = "give one limit for it"};
  }
  return limits;
}

Result<Budgets> budgets_of(const CheckArguments& arguments) {
  Budgets budgets{.all_served = !arguments.capacity.empty()};
  Result<void> done = set(budgets.max_peak, arguments.max_peak, "--max-peak", parse_limit);
  if (done) done = set(budgets.max_reserved, arguments.max_reserved, "--max-reserved", parse_limit);
  if (done) done = set(budgets.max_leaked, arguments.max_leaked, "--max-leaked", parse_size);
  if (done) done = set(budgets.max_fragmentation, arguments.max_fragmentation, "--max-fragmentation", parse_share);
  if (!done) return std::move(done).error();
  Result<std::map<Category, Bytes>> categories = parse_categories(arguments.max_category);
  if (!categories) return std::move(categories).error();
  budgets.max_category = *std::move(categories);
  return budgets;
}

/// The policies of the command line, else those of the baseline.
Result<std::vector<PolicySpec>> policies_of(const CheckArguments& arguments, const std::optional<Measured>& baseline) {
  Result<std::vector<PolicySpec>> given = parse_policy_lists(arguments.policies);
  if (!given || !baseline) return given;
  std::vector<std::string> texts;
  for (const PolicyMetrics& p : baseline->policies)
    if (p.policy != recorded_metrics && std::ranges::find(texts, p.policy) == texts.end()) texts.push_back(p.policy);
  Result<std::vector<PolicySpec>> theirs = parse_policy_lists(texts);
  if (!theirs) return Error{.what = theirs.error().what, .where = arguments.baseline.string()};
  // Loading a library executes its code, and a baseline may come from anyone.
  for (const PolicySpec& spec : *theirs)
    if (loads_library(spec) && std::ranges::find(*given, spec.name, &PolicySpec::name) == given->end())
      return Error{.what = "names a library as a policy, " + spec.name + ", which only the command line may do",
                   .where = arguments.baseline.string(),
                   .remedy = "if you trust it, add --policy " + spec.name};
  return given->empty() ? theirs : given;
}

/// Whether the run is judged under the settings that it had itself: unless policies were named, now or for the
/// baseline.
bool asks_for_own_settings(const CheckArguments& arguments, const Question& question) {
  if (!arguments.policies.empty()) return false;
  if (!question.baseline || question.policies.empty()) return true;
  return !question.baseline->settings.empty() &&
         std::ranges::find(question.baseline->policies, question.baseline->settings, &PolicyMetrics::policy) !=
             question.baseline->policies.end();
}

Result<Question> question_of(const CheckArguments& arguments) {
  Question question;
  Result<Budgets> budgets = budgets_of(arguments);
  if (!budgets) return std::move(budgets).error();
  question.budgets = *budgets;
  if (!question.budgets.any() && !arguments.valid && arguments.baseline.empty() && arguments.write_baseline.empty())
    return Error{.what = "nothing to check",
                 .remedy = "give a budget such as --max-reserved 9GiB, or --baseline FILE, or --write-baseline FILE"};
  if (!arguments.tolerance.empty()) {
    const Result<double> tolerance = parse_share(arguments.tolerance, "--tolerance");
    if (!tolerance) return tolerance.error();
    question.tolerance = *tolerance;
  }
  if (!arguments.baseline.empty()) {
    Result<Measured> baseline = read_baseline(arguments.baseline);
    if (!baseline) return std::move(baseline).error();
    question.baseline = *std::move(baseline);
  }
  Result<std::vector<PolicySpec>> policies = policies_of(arguments, question.baseline);
  if (!policies) return std::move(policies).error();
  question.policies = *std::move(policies);
  question.measure.heap = arguments.heap;
  if (!arguments.capacity.empty()) {
    const Result<Bytes> capacity = parse_capacity_size(arguments.capacity);
    if (!capacity) return capacity.error();
    question.measure.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity};
  }
  Result<LeakOptions> leaks = leak_options(arguments.leaks);
  if (!leaks) return std::move(leaks).error();
  question.leaks = *std::move(leaks);
  for (const auto& entry : question.budgets.max_category) question.measure.categories.insert(entry.first);
  question.measure.leaks =
      question.budgets.max_leaked || !arguments.baseline.empty() || !arguments.write_baseline.empty();
  return question;
}

/// Adds what the program ran with to what is replayed, if that is known. For other pools, judges the recorded reserved
/// bytes; nothing, if all budgets given need neither.
Result<void> choose_policies(const CheckArguments& arguments, const Analysis& analysis,
                             const std::vector<Prepared>& heaps, Question& question) {
  if (const auto recorded = recorded_policy(analysis.trace(), heaps)) {
    question.policies.insert(question.policies.begin(), *recorded);
    return {};
  }
  const Budgets& budgets = question.budgets;
  const auto reserved_is_known = [&](const Prepared& heap) { return records_reserved(analysis, heap); };
  question.measure.recorded = std::ranges::all_of(heaps, reserved_is_known);
  if (budgets.all_served || ((budgets.max_reserved || budgets.max_fragmentation) && !question.measure.recorded)) {
    if (auto named = named_policy(analysis.trace(), heaps)) {
      question.policies.insert(question.policies.begin(), *std::move(named));
      return {};
    }
    return Error{.what = "this program did not use PyTorch's allocator",
                 .where = arguments.file.string(),
                 .remedy = "name what to replay with --policy, e.g. --policy cuda.malloc"};
  }
  return {};
}

/// A trace or baseline is incomplete: what passes may be what is missing.
Result<void> judge_completeness(const CheckArguments& arguments, const std::vector<std::string>& missing,
                                const std::filesystem::path& where, const std::string& remedy) {
  if (missing.empty()) return {};
  std::string what = "can't be judged; missing: " + missing.front();
  for (std::size_t i = 1; i < missing.size(); ++i) what += "; " + missing[i];
  if (!arguments.allow_incomplete)
    return Error{.what = std::move(what),
                 .where = where.string(),
                 .remedy = remedy + ", or judge what there is with --allow-incomplete"};
  return {};
}

/// The heaps to replay.
Result<std::vector<Prepared>> judged_heaps(const CheckArguments& arguments, const Trace& trace) {
  std::vector<Prepared> heaps = arguments.heap.empty() ? program_heaps(trace) : prepare(trace);
  if (heaps.empty()) return Error{.what = "holds no allocations to judge", .where = arguments.file.string()};
  if (const Result<void> left = leave_heap(trace.tables, arguments.heap, heaps); !left) return left.error();
  return heaps;
}

/// Peaks that are unknown, because the program was refused more.
std::vector<std::string> unserved(const Measured& measured, const Budgets& budgets, bool has_baseline) {
  const bool asks_for_peaks =
      budgets.max_peak || budgets.max_reserved || budgets.max_fragmentation || !budgets.max_category.empty();
  if (measured.failures == 0 || !asks_for_peaks || budgets.all_served || has_baseline) return {};
  return {"how much memory " + counted(measured.failures, "refused request") + " would have needed"};
}

std::string named(const std::string& settings) {
  return settings.empty() ? "an allocator other than PyTorch's" : settings;
}

/// Whether the driver's calls are recorded, and not only those of pools, such as PyTorch's.
bool is_whole(const Measured& measured, std::int32_t device) {
  const auto of = std::ranges::find(measured.devices, device, &DeviceMetrics::device);
  return of != measured.devices.end() && of->has_driver;
}

Json document_of(const CheckArguments& arguments, const Trace& trace, const GateOutcome& outcome,
                 std::vector<std::string> missing, const Measured& measured) {
  std::ranges::move(unjudged_in(outcome.checks), std::back_inserter(missing));
  Json list = Json::array();
  for (const Check& check : outcome.checks) {
    Json entry{{"name", check.name},
               {"policy", check.policy.empty() ? Json(nullptr) : Json(check.policy)},
               {"device", check.number},
               {"whole_device", is_whole(measured, check.number)}};
    const Json figures = json_of_figures(check);
    for (const char* const key : {"unit", "value", "limit"}) entry[key] = figures[key];
    entry["late_start_range_bytes"] =
        check.late_range ? Json({check.late_range->first.count, check.late_range->second.count}) : Json(nullptr);
    for (const char* const key : {"passed", "reason"}) entry[key] = figures[key];
    list.push_back(std::move(entry));
  }
  return {{"schema", "memreel.check/1"},   {"trace", arguments.file.string()}, {"losses", json_of_losses(trace)},
          {"missing", std::move(missing)}, {"passed", outcome.passed()},       {"checks", std::move(list)}};
}

/// What is judged, for a build server.
std::string subject_of(const CheckArguments& arguments) { return arguments.file.filename().string(); }

/// The files that are read, besides the baseline, which can't name libraries.
std::vector<std::filesystem::path> inputs_of(const CheckArguments& arguments) {
  std::vector<std::filesystem::path> inputs{arguments.file};
  inputs.insert(inputs.end(), arguments.leaks.suppressions.begin(), arguments.leaks.suppressions.end());
  if (const Result<std::vector<PolicySpec>> policies = parse_policy_lists(arguments.policies))
    for (const PolicySpec& spec : *policies)
      if (loads_library(spec)) inputs.emplace_back(spec.name);
  return inputs;
}

/// Options common to both kinds of check appear once on the command line.
Exit run_check_of_job(const CheckArguments& arguments) {
  CheckFleetArguments job = arguments.fleet;
  if (!arguments.max_peak.empty() || !arguments.max_fragmentation.empty() || !arguments.max_category.empty() ||
      !arguments.policies.empty() || arguments.valid)
    return fail({.what = "--max-peak, --max-category, --max-fragmentation, --policy and --valid are for one recording",
                 .where = "--fleet",
                 .remedy = "for a job: --max-reserved, --max-p99, --max-imbalance, --min-headroom, --max-leaked"});
  job.max_reserved = arguments.max_reserved;
  job.max_leaked = arguments.max_leaked;
  job.capacity = arguments.capacity;
  job.heap = arguments.heap;
  job.memory_limit = arguments.memory_limit;
  job.allow_incomplete = arguments.allow_incomplete;
  job.tolerance = default_tolerance;
  if (!arguments.tolerance.empty()) {
    const Result<double> tolerance = parse_share(arguments.tolerance, "--tolerance");
    if (!tolerance) return fail(tolerance.error());
    job.tolerance = *tolerance;
  }
  job.baseline = arguments.baseline;
  job.write_baseline = arguments.write_baseline;
  job.junit = arguments.junit;
  job.markdown = arguments.markdown;
  job.json = arguments.json;
  return run_check_fleet(job);
}

Result<Exit> judge(const CheckArguments& arguments) {
  Result<Question> question = question_of(arguments);
  if (!question) return question.error();
  const Result<Trace> trace = open_completed(arguments.file, arguments.memory_limit, arguments.symbols);
  if (!trace) return trace.error();
  const Result<std::vector<Prepared>> heaps = judged_heaps(arguments, *trace);
  if (!heaps) return heaps.error();
  const std::vector<PoolError> errors = arguments.valid ? pool_errors(*trace) : std::vector<PoolError>{};
  if (arguments.valid && own_pools(*trace).empty())
    return Error{.what = "holds no pools of the program's own to judge",
                 .where = arguments.file.string(),
                 .remedy = "report them with memreel.h (docs/frameworks.md)"};
  std::vector<std::string> missing;  // beside what single checks can't judge
  // Adds what can't be judged. Error: that is not allowed.
  const auto lacks = [&](const std::vector<std::string>& more, const std::filesystem::path& where,
                         const std::string& remedy) {
    missing.insert(missing.end(), more.begin(), more.end());
    return judge_completeness(arguments, more, where, remedy);
  };
  if (const Result<void> complete =
          lacks(what_is_missing(*trace), arguments.file,
                trace->read.later.empty() ? "record the program from its start to its end" : "check each by itself");
      !complete && errors.empty())  // what is wrong is so whatever is missing
    return complete.error();
  const Analysis analysis(*trace, {.leaks = question->leaks});
  const bool own_settings = asks_for_own_settings(arguments, *question);
  if (!has_history(*trace)) {
    if (!arguments.policies.empty()) return must_have_history(*trace, arguments.file).error();
    question->policies.clear();
    question->measure.recorded = true;
  } else if (own_settings) {
    if (question->baseline)
      std::erase_if(question->policies, [&](const PolicySpec& p) { return p.text() == question->baseline->settings; });
    const Result<void> chosen = choose_policies(arguments, analysis, *heaps, *question);
    if (!chosen) return chosen.error();
    // A replay that starts midway may need less than the program had already reserved.
    question->measure.recorded |= !missing.empty();
  }
  const auto measure_with = [&](const MeasureOptions& options) {
    const ProgressBar bar("replaying");
    Result<Measured> measured = measure(analysis, *heaps, question->policies, options);
    if (!measured) return measured;
    measured->version = version;
    if (const auto recorded = recorded_policy(*trace, *heaps)) measured->settings = recorded->text();
    return measured;
  };
  const Result<Measured> measured = measure_with(question->measure);
  if (!measured) return measured.error();
  // A baseline is of a device that is large enough: on another, a policy makes do with less, or fails.
  Result<Measured> figures = *measured;
  if (question->measure.device && (question->baseline || !arguments.write_baseline.empty())) {
    MeasureOptions unlimited = question->measure;
    unlimited.device.reset();
    figures = measure_with(unlimited);
    if (!figures) return figures.error();
  }

  std::vector<Check> checks = check_budgets(*measured, question->budgets);
  Result<void> complete = lacks(unserved(*measured, question->budgets, question->baseline.has_value()), arguments.file,
                                "judge whether they are served with --capacity SIZE");
  const auto must_be_judged = [&](std::string_view name, const std::string& remedy) {
    if (complete) complete = judge_completeness(arguments, unjudged_in(checks, name), arguments.file, remedy);
  };
  must_be_judged("max-category", "record with stacks (docs/categories.md)");
  must_be_judged("max-reserved", "name what to replay with --policy");
  must_be_judged("max-fragmentation", "name what to replay with --policy");
  must_be_judged("capacity", "record a history (memreel record, or torch.cuda.memory._record_memory_history())");
  must_be_judged("max-leaked", "record at least " + std::to_string(fewest_rounds) + " steps");
  if (!complete) return complete.error();
  if (arguments.valid) checks.push_back(check_valid(trace->tables, errors));
  if (question->baseline) {
    const Measured before = own_settings ? under_settings_of(*figures, *question->baseline) : *question->baseline;
    std::vector<std::string> of_baseline = not_in_baseline(*figures, before);
    for (std::string& lack : of_baseline) lack += " in the baseline";
    complete = lacks(of_baseline, arguments.baseline, "write a new one with memreel check --write-baseline");
    if (complete)
      complete = lacks(not_in_run(*figures, before), arguments.file,
                       "record what the baseline was written of, or write a new one");
    if (!complete) return complete.error();
    if (before.version.empty())
      note(
          arguments.baseline.string() +
          " is of an older memreel: steps, heaps and settings are not compared; write a new one with --write-baseline");
    const std::vector<Check> more = check_baseline(*figures, before, question->tolerance);
    if (more.empty())
      return Error{.what = "has no policy or device in common with this run", .where = arguments.baseline.string()};
    checks.insert(checks.end(), more.begin(), more.end());
    for (const char* const of_policy : {"baseline peak-reserved", "baseline fragmentation", "baseline failures"})
      must_be_judged(of_policy, "name what to replay with --policy");
    if (!complete) return complete.error();
    if (arguments.policies.empty() && !before.version.empty() && measured->settings != before.settings) {
      const std::string change =
          "settings changed: " + named(measured->settings) + ", in the baseline " + named(before.settings);
      // A run that needs more with them is a regression; one that needs no more proves nothing about the program.
      if (std::ranges::none_of(checks, &Check::failed))
        complete = lacks({"the baseline's settings (" + change + ")"}, arguments.file,
                         "run with the baseline's settings, write a new one with memreel check --write-baseline, or "
                         "name what to judge with --policy");
      else
        note(change);
      if (!complete) return complete.error();
    }
  }
  GateOutcome outcome{.subject = subject_of(arguments), .checks = std::move(checks)};
  const Json document = document_of(arguments, *trace, outcome, missing, *measured);
  // For those who have no list of what is missing.
  if (!missing.empty()) outcome.checks.insert(outcome.checks.begin(), incomplete(missing));
  const CheckOutputs outputs = arguments.outputs();
  if (const auto written = write_outcome(outcome, baseline_text(*figures), outputs); !written) return written.error();
  if (arguments.json)
    print_json(document);
  else
    print_outcome(outcome, outputs);
  return outcome.passed() ? Exit::done : Exit::negative;
}

Exit run_check(const CheckArguments& arguments) {
  if (!arguments.fleet.files.empty()) return run_check_of_job(arguments);
  if (arguments.file.empty()) return fail({.what = "TRACE is required", .remedy = "see memreel check --help"});
  if (auto differ = outputs_differ(inputs_of(arguments), arguments.outputs()); !differ) return fail(differ.error());
  const Result<Exit> judged = judge(arguments);
  return judged ? *judged : unjudged(judged.error(), arguments.outputs(), subject_of(arguments));
}

}  // namespace

void add_check_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("check", "Fail when a run exceeds a memory budget or regresses from a baseline");
  const auto arguments = std::make_shared<CheckArguments>();
  command->add_option("TRACE", arguments->file, "Trace, or any file that import reads");
  command->add_option("--fleet", arguments->fleet.files,
                      "Judge all ranks of a job: recordings or directories of them (docs/fleet.md)");
  add_whole_number(*command, "--world-size", arguments->fleet.world_size, {1, any_count},
                   "With --fleet: number of ranks in the job [from the recordings, else the highest rank]");
  command->add_option("--rank-pattern", arguments->fleet.rank_pattern,
                      "With --fleet: regular expression whose first group is the rank, where neither recordings "
                      "nor names show it");
  command->add_option("--job", arguments->fleet.job, "With --fleet: only this job, of several");
  command->add_option("--max-p99", arguments->fleet.max_p99,
                      "With --fleet: limit of the 99th percentile of reserved bytes");
  command->add_option("--max-imbalance", arguments->fleet.max_imbalance,
                      "With --fleet: highest reserved peak over the mean, e.g. 1.2");
  command->add_option("--min-headroom", arguments->fleet.min_headroom,
                      "With --fleet: minimum headroom on any rank, e.g. 4GiB");
  add_memory_option(*command, arguments->memory_limit);
  command->add_option("--max-peak", arguments->max_peak,
                      "Limit of live bytes on each device, over all its heaps, e.g. 9GiB");
  command->add_option("--max-reserved", arguments->max_reserved,
                      "Limit of the bytes that each device holds, under each policy");
  command->add_option("--max-leaked", arguments->max_leaked, "Limit of bytes in leaked or suspected allocations");
  command->add_flag("--valid", arguments->valid,
                    "Fail on errors in the use of the program's own pools: double and invalid frees, overlaps, ...");
  command->add_option("--max-fragmentation", arguments->max_fragmentation,
                      "Limit of the share of reserved memory that is unused at the peak: 0.15 or 15%");
  command
      ->add_option("--max-category", arguments->max_category,
                   "Limit of live bytes of one category, e.g. activation=20GiB; repeatable, comma lists")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--capacity", arguments->capacity,
                      "Fail unless a device of this size serves every request, with all that is on it");
  command->add_option(
      "--policy", arguments->policies,
      "Policies to replay, repeatable or separated by commas [what the program ran with, and the baseline's others]");
  add_heap_option(*command, arguments->heap, "Judge", ", not whole devices");
  command->add_option("--baseline", arguments->baseline, "Compare with the metrics in this file");
  command->add_option("--tolerance", arguments->tolerance, "Allowed increase over the baseline [1%]");
  command->add_option("--write-baseline", arguments->write_baseline, "Write the metrics of this run to a file");
  command->add_option("--junit", arguments->junit, "Write the result as JUnit XML");
  command->add_option("--markdown", arguments->markdown, "Write the result as a comment for a pull request");
  command->add_flag("--allow-incomplete", arguments->allow_incomplete,
                    "Judge an incomplete trace or baseline by what it has, instead of exit code 2");
  add_suppression_options(*command, arguments->leaks);
  add_stack_options(*command, arguments->symbols);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.check/1) instead of text");
  only_with(*command, {"--world-size", "--rank-pattern", "--job", "--max-p99", "--max-imbalance", "--min-headroom"},
            {"--fleet"});
  not_with(*command,
           {"TRACE", "--suppress", "--suppressions", "--sysroot", "--debuginfod", "--all-frames", "--skip-frame"},
           {"--fleet"});
  only_with(*command, {"--tolerance"}, {"--baseline"});
  only_with(*command, {"--suppress", "--suppressions"}, {"--max-leaked", "--baseline", "--write-baseline"});
  command->footer(
      "Exit code 0: everything is within its limits; 1: something is not, with a line that says what, by how much and "
      "where the memory is held; 2: bad usage, a file that can't be read, or one that can't be judged because part of "
      "the history is missing.\n\n"
      "Examples:\n"
      "  memreel check run.reel --max-reserved 9GiB --max-leaked 0\n"
      "  memreel check run.reel --max-category activation=20GiB,kv_cache=8GiB\n"
      "  memreel check run.reel --policy torch.native,torch.expandable --max-fragmentation 10%\n"
      "  memreel check run.reel --write-baseline memory-baseline.json\n"
      "  memreel check run.reel --baseline memory-baseline.json --tolerance 2% --junit memreel.xml\n"
      "  memreel check --fleet job/ --max-reserved 70GiB --min-headroom 4GiB --max-imbalance 1.2");
  command->callback([arguments, &exit] { exit = run_check(*arguments); });
}

}  // namespace memreel::cli
