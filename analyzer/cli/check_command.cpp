#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/arguments.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/report_leaks.h"
#include "analyzer/cli/subject.h"
#include "analyzer/gate/baseline_file.h"
#include "analyzer/gate/gate.h"
#include "analyzer/gate/summaries.h"
#include "analyzer/report/text_table.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

constexpr double default_tolerance = 0.01;

struct CheckArguments {
  std::filesystem::path file;
  std::string max_peak, max_reserved, max_leaked, max_fragmentation, capacity, tolerance;
  std::vector<std::string> policies;
  std::filesystem::path baseline, write_baseline, junit, markdown;
  LeakArguments leaks;
  bool json = false;
};

/// What is asked, once all texts made sense.
struct Question {
  Budgets budgets;
  double tolerance = default_tolerance;
  std::vector<PolicySpec> policies;  // empty: what the program ran with
  std::optional<Measured> baseline;
  MeasureOptions measure;
};

/// "0.15" or "15%".
Result<double> parse_share(std::string_view text, std::string where) {
  const bool percent = text.ends_with('%');
  const std::string_view number = percent ? text.substr(0, text.size() - 1) : text;
  double value = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (percent) value /= 100;
  if (problem != std::errc{} || end != number.data() + number.size() || !(value >= 0 && value <= 1))
    return Error{.what = "'" + std::string(text) + "' is no share", .where = std::move(where), .remedy = "0.15 or 15%"};
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

Result<Budgets> budgets_of(const CheckArguments& arguments) {
  Budgets budgets{.all_served = !arguments.capacity.empty()};
  Result<void> done = set(budgets.max_peak, arguments.max_peak, "--max-peak", parse_size);
  if (done) done = set(budgets.max_reserved, arguments.max_reserved, "--max-reserved", parse_size);
  if (done) done = set(budgets.max_leaked, arguments.max_leaked, "--max-leaked", parse_size);
  if (done) done = set(budgets.max_fragmentation, arguments.max_fragmentation, "--max-fragmentation", parse_share);
  if (!done) return std::move(done).error();
  return budgets;
}

/// Policies of the command line, or else those that the baseline has.
Result<std::vector<PolicySpec>> policies_of(const CheckArguments& arguments, const std::optional<Measured>& baseline) {
  std::vector<std::string> texts = arguments.policies;
  if (texts.empty() && baseline) {
    for (const PolicyFigures& p : baseline->policies)
      if (std::ranges::find(texts, p.policy) == texts.end()) texts.push_back(p.policy);
  }
  return parse_policy_lists(texts);
}

Result<Question> question_of(const CheckArguments& arguments) {
  Question question;
  Result<Budgets> budgets = budgets_of(arguments);
  if (!budgets) return std::move(budgets).error();
  question.budgets = *budgets;
  if (!question.budgets.any() && arguments.baseline.empty() && arguments.write_baseline.empty())
    return Error{.what = "there is nothing to check",
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
  if (!arguments.capacity.empty()) {
    const Result<Bytes> capacity = parse_size(arguments.capacity, "--capacity");
    if (!capacity) return capacity.error();
    question.measure.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity};
  }
  Result<LeakOptions> leaks = leak_options(arguments.leaks);
  if (!leaks) return std::move(leaks).error();
  question.measure.leak_options = *std::move(leaks);
  question.measure.leaks =
      question.budgets.max_leaked || !arguments.baseline.empty() || !arguments.write_baseline.empty();
  return question;
}

/// What the program ran with where that is known; nothing is replayed when only budgets are given that need no replay.
Result<std::vector<PolicySpec>> default_policies(const CheckArguments& arguments, const Question& question,
                                                 const Trace& trace, const std::vector<Prepared>& heaps) {
  if (const auto recorded = recorded_policy(trace, heaps)) return std::vector{*recorded};
  const Budgets& budgets = question.budgets;
  if (!budgets.max_reserved && !budgets.max_fragmentation && !budgets.all_served) return std::vector<PolicySpec>{};
  return Error{.what = "the allocator that this program ran with is not PyTorch's",
               .where = arguments.file.string(),
               .remedy = "name what to replay with --policy, e.g. --policy cuda.malloc"};
}

Json json_of(const Figure& figure) {
  if (const auto* bytes = std::get_if<Bytes>(&figure)) return bytes->count;
  if (const auto* share = std::get_if<double>(&figure)) return *share;
  return std::get<std::uint64_t>(figure);
}

std::string_view unit_of(const Figure& figure) {
  if (std::holds_alternative<Bytes>(figure)) return "bytes";
  return std::holds_alternative<double>(figure) ? "share" : "requests";
}

Json document_of(const CheckArguments& arguments, const Trace& trace, const std::vector<Check>& checks, bool passed) {
  Json list = Json::array();
  for (const Check& check : checks)
    list.push_back({{"name", check.name},
                    {"policy", check.policy.empty() ? Json(nullptr) : Json(check.policy)},
                    {"device", check.device},
                    {"unit", unit_of(check.value)},
                    {"value", json_of(check.value)},
                    {"limit", json_of(check.limit)},
                    {"passed", check.passed()},
                    {"reason", check.passed() ? Json(nullptr) : Json(check.reason)}});
  return {{"schema", "memreel.check/1"},
          {"trace", arguments.file.string()},
          {"losses", json_of_losses(trace)},
          {"passed", passed},
          {"checks", std::move(list)}};
}

void print_text(const std::vector<Check>& checks) {
  TextTable table(
      {{""}, {"check"}, {"policy"}, {"device", Align::right}, {"value", Align::right}, {"limit", Align::right}});
  for (const Check& check : checks)
    table.add_row({check.passed() ? "ok" : "FAILED", check.name, check.policy,
                   check.device < 0 ? "host" : std::to_string(check.device), text_of(check.value),
                   text_of(check.limit)});
  table.print(std::cout);
  for (const Check& check : checks)
    if (!check.passed()) std::cout << '\n' << red("failed") << ": " << check.reason;
  if (std::ranges::any_of(checks, [](const Check& check) { return !check.passed(); })) std::cout << '\n';
}

Result<void> write_file(const std::filesystem::path& file, const std::string& text) {
  if (file.empty()) return {};
  return write_output(file, [&](std::ostream& out) -> Result<void> {
    out << text;
    return {};
  });
}

/// The files that were asked for.
Result<void> write_files(const CheckArguments& arguments, const std::vector<Check>& checks, const Measured& measured) {
  const std::string subject = arguments.file.filename().string();
  Result<void> done = write_file(arguments.junit, junit_of(checks, subject));
  if (done) done = write_file(arguments.markdown, markdown_of(checks, subject));
  if (done) done = write_file(arguments.write_baseline, baseline_text(measured));
  return done;
}

Exit run_check(const CheckArguments& arguments) {
  Result<Question> question = question_of(arguments);
  if (!question) return fail(question.error());
  const Result<Trace> trace = open_subject(arguments.file);
  if (!trace) return fail(trace.error());
  const std::vector<Prepared> heaps = program_heaps(*trace);
  if (heaps.empty()) return fail({.what = "holds no allocations to judge", .where = arguments.file.string()});
  if (question->policies.empty()) {
    Result<std::vector<PolicySpec>> policies = default_policies(arguments, *question, *trace, heaps);
    if (!policies) return fail(policies.error());
    question->policies = *std::move(policies);
  }
  const Result<Measured> measured = measure(*trace, heaps, question->policies, question->measure);
  if (!measured) return fail(measured.error());

  std::vector<Check> checks = check_budgets(*measured, question->budgets);
  if (question->baseline) {
    const std::vector<Check> more = check_baseline(*measured, *question->baseline, question->tolerance);
    if (more.empty())
      return fail(
          {.what = "has no policy and no device in common with this run", .where = arguments.baseline.string()});
    checks.insert(checks.end(), more.begin(), more.end());
  }
  if (const Result<void> written = write_files(arguments, checks, *measured); !written) return fail(written.error());
  const bool passed = std::ranges::all_of(checks, &Check::passed);
  if (arguments.json)
    print_json(document_of(arguments, *trace, checks, passed));
  else if (!checks.empty())
    print_text(checks);
  return passed ? Exit::done : Exit::negative;
}

}  // namespace

void add_check_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("check", "Fail when a run needs more memory than it may, or than it did before");
  const auto arguments = std::make_shared<CheckArguments>();
  command->add_option("TRACE", arguments->file, "Trace, or any file that import reads")->required();
  command->add_option("--max-peak", arguments->max_peak, "Most live bytes, on each device, e.g. 9GiB");
  command->add_option("--max-reserved", arguments->max_reserved, "Most reserved bytes, under each policy");
  command->add_option("--max-leaked", arguments->max_leaked, "Most bytes of stacks that leak or are suspected to");
  command->add_option("--max-fragmentation", arguments->max_fragmentation,
                      "Most of the reserved memory that may be unused at the peak: 0.15 or 15%");
  command->add_option("--capacity", arguments->capacity, "Every request must be served with a device of this size");
  command->add_option(
      "--policy", arguments->policies,
      "Policies to replay, repeatable or separated by commas [the baseline's, else what the program ran "
      "with]");
  command->add_option("--baseline", arguments->baseline, "Compare with the figures in this file");
  command->add_option("--tolerance", arguments->tolerance, "How much worse than the baseline is no regression [1%]");
  command->add_option("--write-baseline", arguments->write_baseline, "Write the figures of this run to a file");
  command->add_option("--junit", arguments->junit, "Write the outcome as JUnit XML");
  command->add_option("--markdown", arguments->markdown, "Write the outcome as a comment for a pull request");
  add_suppression_options(*command, arguments->leaks);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.check/1) instead of text");
  command->footer(
      "Exit code 0: everything is within its limits; 1: something is not, with a line that says what, by how much and\n"
      "where the memory is held; 2: bad usage, or a file that can't be read.\n\n"
      "Examples:\n"
      "  memreel check run.reel --max-reserved 9GiB --max-leaked 0\n"
      "  memreel check run.reel --policy torch.native,torch.expandable --max-fragmentation 10%\n"
      "  memreel check run.reel --write-baseline memory-baseline.json\n"
      "  memreel check run.reel --baseline memory-baseline.json --tolerance 2% --junit memreel.xml");
  command->callback([arguments, &exit] { exit = run_check(*arguments); });
}

}  // namespace memreel::cli
