// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/gate_outcome.h"

#include <algorithm>

#include "analyzer/describe/markup.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// Escapes text for an XML attribute or element. XML cannot represent most control characters.
std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F ? '?' : c;
        break;
    }
  }
  return out;
}

std::string title_of(const Check& check) {
  const std::string title = check.name + (check.policy.empty() ? "" : " " + check.policy);
  if (check.of == CheckOf::all) return title;
  if (check.of == CheckOf::rank) return title + " rank " + std::to_string(check.number);
  return title + (check.number < 0 ? " host memory" : " device " + std::to_string(check.number));
}

std::uint64_t failures_in(std::span<const Check> checks) {
  return static_cast<std::uint64_t>(std::ranges::count_if(checks, &Check::failed));
}

std::uint64_t unjudged_of(std::span<const Check> checks) {
  return checks.size() - static_cast<std::uint64_t>(std::ranges::count_if(checks, &Check::judged));
}

struct TestCounts {
  std::uint64_t tests = 0, failures = 0, errors = 0, skipped = 0;
};

std::string test_suite(TestCounts n, std::string_view subject, const std::string& cases) {
  const std::string counts = " tests=\"" + std::to_string(n.tests) + "\" failures=\"" + std::to_string(n.failures) +
                             "\" errors=\"" + std::to_string(n.errors) + "\" skipped=\"" + std::to_string(n.skipped) +
                             "\"";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"memreel check\"" + counts +
         ">\n  <testsuite name=\"" + xml(subject) + "\"" + counts + ">\n" + cases + "  </testsuite>\n</testsuites>\n";
}

/// `outcome`: "failure", "error" or "skipped"; empty if it passed.
std::string test_case(std::string_view title, const std::string& outcome = {}, std::string_view type = {},
                      std::string_view reason = {}) {
  const std::string start = "    <testcase classname=\"memreel\" name=\"" + xml(title) + "\"";
  if (outcome.empty()) return start + "/>\n";
  return start + ">\n      <" + outcome + " type=\"" + xml(type) + "\" message=\"" + xml(reason) + "\">" + xml(reason) +
         "</" + outcome + ">\n    </testcase>\n";
}

}  // namespace

bool GateOutcome::passed() const { return std::ranges::none_of(checks, &Check::failed); }

Check incomplete(std::span<const std::string> missing) {
  Check check{.name = "complete", .of = CheckOf::all, .unjudged = "incomplete: "};
  for (const std::string& text : missing) check.unjudged += (&text == &missing.front() ? "" : "; ") + text;
  return check;
}

const std::string& reason_of(const Check& check) { return check.failed() ? check.reason : check.unjudged; }

std::string number_text(const Check& check) {
  if (check.of == CheckOf::all) return "";
  return check.of == CheckOf::device && check.number < 0 ? "host" : std::to_string(check.number);
}

std::string junit_of(const GateOutcome& outcome) {
  std::string cases;
  for (const Check& check : outcome.checks)
    cases += test_case(title_of(check),
                       check.failed()   ? "failure"
                       : check.judged() ? ""
                                        : "skipped",
                       check.failed() ? check.name : "not judged", reason_of(check));
  return test_suite(
      {.tests = outcome.checks.size(), .failures = failures_in(outcome.checks), .skipped = unjudged_of(outcome.checks)},
      outcome.subject, cases);
}

std::string junit_of(const Error& why, std::string_view subject) {
  return test_suite({.tests = 1, .errors = 1}, subject, test_case("check", "error", "not judged", why.message()));
}

std::string markdown_of(const GateOutcome& outcome) {
  const std::uint64_t failures = failures_in(outcome.checks);
  std::string out = "### memreel: ";
  out += failures == 0 ? "GPU memory is within its limits" : "GPU memory exceeds its limits";
  const std::uint64_t unjudged = unjudged_of(outcome.checks);
  if (failures == 0 && unjudged > 0) out += ", as far as it could be judged";
  out += "\n\n" + markdown_escaped(outcome.subject) + ": " + counted(outcome.checks.size(), "check") + ", " +
         text_of(failures) + " failed" + (unjudged == 0 ? "" : ", " + text_of(unjudged) + " not judged") +
         "\n\n| | check | " + (outcome.is_of_job ? "rank" : "policy | device") + " | value | limit |\n|---|---|---|" +
         (outcome.is_of_job ? "" : "---|") + "---:|---:|\n";
  for (const Check& check : outcome.checks) {
    out += std::string("| ") +
           (check.failed()   ? "❌"
            : check.judged() ? "✅"
                             : "not judged") +
           " | " + markdown_escaped(check.name) + " | ";
    if (!outcome.is_of_job) out += markdown_escaped(check.policy) + " | ";
    out += number_text(check) + " | " + (check.judged() ? text_of(check.value) + " | " + text_of(check.limit) : " | ") +
           " |\n";
  }
  if (failures + unjudged != 0) out += "\n";
  for (const Check& check : outcome.checks)
    if (check.failed()) out += "- " + markdown_escaped(check.reason) + "\n";
  for (const std::string& text : unjudged_in(outcome.checks)) out += "- " + markdown_escaped(text) + "\n";
  return out;
}

std::string markdown_of(const Error& why) {
  return "### memreel: GPU memory could not be judged\n\n" + markdown_escaped(why.message()) + "\n";
}

}  // namespace memreel
