// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/check_outcome.h"

#include <algorithm>
#include <array>
#include <iostream>

#include "analyzer/describe/text_table.h"

namespace memreel::cli {
namespace {

Result<void> write_text(const std::filesystem::path& file, const std::string& text) {
  if (file.empty()) return {};
  return write_output(file, [&](std::ostream& out) -> Result<void> {
    out << text;
    return {};
  });
}

struct JsonOfMetric {
  Json operator()(Bytes bytes) const { return bytes.count; }
  Json operator()(double share) const { return share; }
  Json operator()(std::uint64_t requests) const { return requests; }
  Json operator()(ErrorCount errors) const { return errors.count; }
  Json operator()(RankCount ranks) const { return ranks.count; }
  Json operator()(Ratio ratio) const { return ratio.times; }
};

/// A policy's range is only said where a late start leaves its peak open.
void print_late_ranges(const GateOutcome& outcome, std::ostream& out) {
  for (const Check& check : outcome.checks)
    if (check.late_range && check.passed())
      out << '\n'
          << wrapped("replay from a late start: depending on what was there before, " + check.policy +
                         " reserves between " + text_of(check.late_range->first) + " and " +
                         text_of(check.late_range->second) + " on device " + std::to_string(check.number) +
                         "; the highest is judged",
                     0);
}

/// Whether the baseline is not to be replaced by what exceeds it.
bool stays(const GateOutcome& outcome, const CheckOutputs& outputs) {
  return outputs.renew_baseline() && !outcome.passed();
}

}  // namespace

Json json_of_figures(const Check& check) {
  return {{"unit", unit_of(check.value)},
          {"value", std::visit(JsonOfMetric{}, check.value)},
          {"limit", std::visit(JsonOfMetric{}, check.limit)},
          {"passed", !check.failed()},
          {"reason", check.passed() ? Json(nullptr) : Json(reason_of(check))}};
}

Result<void> write_outcome(const GateOutcome& outcome, const std::string& baseline, const CheckOutputs& outputs) {
  Result<void> done = write_text(outputs.junit, junit_of(outcome));
  if (done) done = write_text(outputs.markdown, markdown_of(outcome));
  if (done && stays(outcome, outputs))
    note(outputs.baseline.string() + " stays as it was: the run exceeds its limits");
  else if (done)
    done = write_text(outputs.baseline, baseline);
  return done;
}

void print_outcome(const GateOutcome& outcome, const CheckOutputs& outputs) {
  std::ostream& out = outputs.text();
  const bool is_of_job = outcome.is_of_job;
  std::vector<TableColumn> columns{{""}, {"check"}};
  if (!is_of_job) columns.push_back({"policy"});
  columns.insert(columns.end(),
                 {{is_of_job ? "rank" : "device", Align::right}, {"value", Align::right}, {"limit", Align::right}});
  TextTable table(std::move(columns));
  for (const Check& check : outcome.checks) {
    std::vector<std::string> row{check.failed() ? "FAILED" : check.judged() ? "ok" : "not judged", check.name};
    if (!is_of_job) row.push_back(check.policy);
    row.insert(row.end(), {number_text(check), check.judged() ? text_of(check.value) : "",
                           check.judged() ? text_of(check.limit) : ""});
    table.add_row(std::move(row));
  }
  if (!outcome.checks.empty()) table.print(out);
  print_late_ranges(outcome, out);
  for (const Check& check : outcome.checks)
    if (check.failed()) out << '\n' << red("failed") << ": " << check.reason;
  for (const std::string& text : unjudged_in(outcome.checks)) out << '\n' << text;
  if (!std::ranges::all_of(outcome.checks, &Check::passed)) out << '\n';
  if (!stays(outcome, outputs)) out << written_text(outputs.baseline);
}

std::ostream& CheckOutputs::text() const {
  return take_standard_output(std::array{baseline, junit, markdown}) ? std::cerr : std::cout;
}

bool CheckOutputs::renew_baseline() const {
  std::error_code missing;
  return !baseline.empty() && std::filesystem::equivalent(baseline, old_baseline, missing);
}

Result<void> outputs_differ(std::span<const std::filesystem::path> inputs, const CheckOutputs& outputs) {
  const std::array files{outputs.baseline, outputs.junit, outputs.markdown};
  if (outputs.json)
    if (auto room = leave_room_for_json(files); !room) return room;
  if (auto differ = must_differ(inputs, files); !differ) return differ;
  return must_differ(std::array{outputs.old_baseline}, std::array{outputs.junit, outputs.markdown});
}

Exit unjudged(const Error& why, const CheckOutputs& outputs, std::string_view subject) {
  const Exit exit = fail(why);
  Result<void> written = write_text(outputs.junit, junit_of(why, subject));
  if (written) written = write_text(outputs.markdown, markdown_of(why));
  if (!written && written.error().message() != why.message()) fail(written.error());
  return exit;
}

}  // namespace memreel::cli
